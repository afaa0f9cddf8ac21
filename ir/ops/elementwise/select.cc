// Elementwise ops whose operands' types differ: select, convert and bitcast; and clamp.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ir/kernel_ir/rows.h"
#include "ir/ops/elementwise/elementwise.h"
#include "ir/ops/movement/strided.h"

namespace nabla::ops {
namespace {

// ---- select

InferResult infer_select(const InferContext& ctx) {
  if (ctx.operands[0].dtype != DType::kBool)
    return ctx.fail(Code::kDTypeMismatch, "C1", "the predicate must be bool, got {}", name_of(ctx.operands[0].dtype));
  NABLA_TRY(ctx.require_same_type(1, 2, "C2"));
  if (ctx.rank(0) != 0) {
    if (ctx.rank(0) != ctx.rank(1))
      return ctx.fail(Code::kShapeMismatch, "C3", "the predicate's shape {} is neither [] nor {}",
                      ir::str(ctx.shape(0)), ir::str(ctx.shape(1)));
    for (int i = 0; i < ctx.rank(0); ++i)
      NABLA_TRY(ctx.require_equal(ctx.shape(0)[i], ctx.shape(1)[i], "C3", fmt::format("sizes in dimension {}", i)));
  }
  return Types{ctx.operands[1]};
}

Literals select_reference(const EvalContext& ctx) {
  const Literal& predicate = ctx.operands[0];
  if (predicate.rank() == 0) return {ctx.operands[predicate.get_i(0) ? 1 : 2]};
  Literal out = zeros(ctx.op.results[0]);
  const char *chosen = static_cast<const char*>(predicate.data()), *from[2];
  for (size_t k : {0, 1}) from[k] = static_cast<const char*>(ctx.operands[k + 1].data());
  char* to = static_cast<char*>(out.mutable_data());
  with_size(bytes_of(out.dtype()), [&]<class T>(T) {
    for (size_t at = 0; at < static_cast<size_t>(out.size_bytes()); at += sizeof(T))
      std::memcpy(to + at, from[chosen[at / sizeof(T)] ? 0 : 1] + at, sizeof(T));
  });
  return {out};
}

std::vector<MaybeVal> select_vjp(VjpContext& ctx) {
  std::vector<MaybeVal> out(3);
  Val zero = ctx.b.zeros_like(ctx.result());
  if (ctx.active[1]) out[1] = ir::select(ctx.operand(0), ctx.ct(), zero);
  if (ctx.active[2]) out[2] = ir::select(ctx.operand(0), zero, ctx.ct());
  return out;
}

std::vector<Val> select_batch(BatchContext& ctx) {
  Val on_true = ctx.batched_operand(1), on_false = ctx.batched_operand(2);
  Val predicate = ctx.operands[0];
  bool scalar = ctx.op.operands[0].rank() == 0;
  if (!scalar)
    predicate = ctx.batched_operand(0);
  else if (ctx.batched[0])
    predicate = ir::broadcast_in_dim(predicate, on_true.shape(), {0});
  return {ir::select(predicate, on_true, on_false)};
}

OpDef select_op() {
  return {
      .name = "select",
      .version = 1,
      .category = "elementwise",
      .doc =
          "on_true where the predicate holds, on_false elsewhere. A scalar predicate chooses for every element. The "
          "branch not taken contributes nothing, not even NaN, to result and gradient.",
      .operands = {{"predicate", "bool, of the same shape or a scalar"},
                   {"on_true", "any type"},
                   {"on_false", "its type"}},
      .attrs = {},
      .results = {{"y", "of on_true's type"}},
      .constraints = {{"C1", "the predicate is bool"},
                      {"C2", "on_true and on_false have the same type"},
                      {"C3", "the predicate is a scalar or has their shape"}},
      .traits = {.elementwise = true},
      .stages = ir::kTensorStages,
      .infer = infer_select,
      .reference = select_reference,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("primitive"),
      .vjp = select_vjp,
      .jvp = jvp_linear_in({1, 2}),
      .batch = select_batch,
      .factors = [](const TypedOp& op) { return Factors::pointwise(op); },
      .as_size = [](const ir::SizeContext& c) -> std::optional<ir::Dim> {
        const std::optional<ir::Dim>& predicate = c.operands[0];
        return predicate && predicate->is_static() ? c.operands[predicate->is(0) ? 2 : 1] : std::nullopt;
      },
      .access =
          [](const TypedOp& op) {
            return map_fragment(op, [&](const std::vector<kernel_ir::Expr>& at) {
              kernel_ir::Expr predicate =
                  load_operand(op, 0, op.operands[0].rank() ? at : std::vector<kernel_ir::Expr>{});
              return kernel_ir::select(predicate, load_operand(op, 1, at), load_operand(op, 2, at));
            });
          },
      .linearity = ir::moves({1, 2}),
      .lower = Lowering::kAccess,
      .cost = [](const TypedOp& op) { return ir::pointwise_cost(op, 1); },
      .dtypes = DTypes::kAll,
      .examples = {{{operand(boolean({2, 3})), operand(f32({2, 3})), operand(f32({2, 3}))}, {}},
                   {{operand(boolean({})), operand(f32({5}), awkward()), operand(f32({5}), awkward())}, {}}},
      .draw = [](Rng& rng) -> Example {
        Shape shape = random_shape(rng, static_cast<int>(random_int(rng, 0, 3)));
        Shape predicate = random_int(rng, 0, 3) == 0 ? Shape{} : shape;
        return {{operand(boolean(predicate)), operand(f32(shape)), operand(f32(shape))}, {}};
      },
      .rejects = {{"C1", {f32({2}), f32({2}), f32({2})}, {}},
                  {"C2", {boolean({2}), f32({2}), i32({2})}, {}},
                  {"C3", {boolean({2}), f32({3}), f32({3})}, {}},
                  {"C3", {boolean({3}), f32({3, 1}), f32({3, 1})}, {}}},
  };
}

// ---- convert

InferResult infer_convert(const InferContext& ctx) { return Types{{ctx.attrs.get_dtype("dtype"), ctx.shape(0)}}; }

Literals convert_reference(const EvalContext& ctx) {
  const Literal& x = ctx.operands[0];
  Literal out = zeros(ctx.op.results[0]);
  // Rows of doubles would round integers that have more bits, and then again.
  if (is_integer(x.dtype()) && bytes_of(x.dtype()) == 8 && is_float(out.dtype())) return {x.converted(out.dtype())};
  auto by_rows = [&](auto row) {
    for (int64_t begin = 0; begin < out.size(); begin += kRowBlock) {
      int64_t count = std::min(kRowBlock, out.size() - begin);
      read_row(x, begin, 1, count, row.data());
      write_row(out, begin, 1, count, row.data());
    }
  };
  if (is_float(x.dtype()) || is_float(out.dtype()))
    by_rows(std::array<double, kRowBlock>());
  else
    by_rows(std::array<int64_t, kRowBlock>());
  return {out};
}

std::vector<Example> convert_examples() {
  auto one = [](DType from, DType to, ValueSpec values) {
    return Example{{operand({from, {2, 5}}, values)}, {{"dtype", to}}};
  };
  return {one(DType::kF32, DType::kBF16, awkward()),          one(DType::kBF16, DType::kF32, awkward()),
          one(DType::kF32, DType::kF64, between(-2, 2)),      one(DType::kF16, DType::kI8, between(-300, 300)),
          one(DType::kF32, DType::kU8, awkward(-300, 300)),   one(DType::kI32, DType::kI8, between(-300, 300)),
          one(DType::kI32, DType::kF32, between(-300, 300)),  one(DType::kF32, DType::kBool, between(-1, 1)),
          one(DType::kBool, DType::kF32, between(0, 1)),      one(DType::kI8, DType::kU32, between(-128, 127)),
          one(DType::kF32, DType::kF8E4M3, between(-16, 16)), one(DType::kF8E5M2, DType::kF32, between(-16, 16)),
          one(DType::kF64, DType::kF16, awkward()),           one(DType::kU64, DType::kBF16, between(0, 1e9)),
          one(DType::kI64, DType::kF8E5M2, between(-300, 300))};
}

OpDef convert_op() {
  return {
      .name = "convert",
      .version = 1,
      .category = "elementwise",
      .doc =
          "x in another dtype. To a narrower float: rounded to nearest even, overflow gives inf (NaN in f8e4m3). Float "
          "to integer: towards zero, saturating, NaN gives 0. Integer to integer: modulo 2^bits. To bool: x != 0. "
          "Only float to float has a derivative; the others are constant almost everywhere.",
      .operands = {{"x", "any type"}},
      .attrs = {required("dtype", AttrKind::kDType, "of the result")},
      .results = {{"y", "x's shape with the dtype `dtype`"}},
      .constraints = {},
      .traits = {.elementwise = true},
      .stages = ir::kTensorStages,
      .infer = infer_convert,
      .reference = convert_reference,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("primitive"),
      .vjp = [](VjpContext& ctx) -> std::vector<MaybeVal> {
        DType from = ctx.operand(0).dtype();
        if (!ctx.active[0] || !is_float(from) || !is_float(ctx.result().dtype())) return {std::nullopt};
        return {ir::convert(ctx.ct(), from)};
      },
      .jvp = [](JvpContext& ctx) -> std::vector<MaybeVal> {
        DType to = ctx.result().dtype();
        if (!is_float(ctx.operand(0).dtype()) || !is_float(to)) return {std::nullopt};
        return {ir::convert(ctx.tangent(0), to)};
      },
      .batch = batch_elementwise,
      .factors = [](const TypedOp& op) { return Factors::pointwise(op); },
      .form = ir::OpForm::kConvert,
      .as_size = [](const ir::SizeContext& c) { return c.operands[0]; },
      .access =
          [](const TypedOp& op) {
            return map_fragment(op, [&](const std::vector<kernel_ir::Expr>& at) {
              return kernel_ir::convert(op.results[0].dtype, load_operand(op, 0, at));
            });
          },
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = [](const TypedOp& op) { return ir::pointwise_cost(op, 1); },
      .dtypes = DTypes::kAsWritten,
      .examples = convert_examples(),
      .draw = [](Rng& rng) -> Example {
        auto dtype = [&] { return static_cast<DType>(random_int(rng, 0, kDTypeCount - 1)); };
        DType from = dtype();
        Shape shape = random_shape(rng, static_cast<int>(random_int(rng, 0, 3)), 200);
        return {{operand({from, shape}, between(is_unsigned(from) || from == DType::kBool ? 0 : -100, 100))},
                {{"dtype", dtype()}}};
      },
      .rejects = {},
  };
}

// ---- bitcast

OpDef bitcast_op() {
  auto one = [](DType from, DType to, ValueSpec values) {
    return Example{{operand({from, {2, 5}}, values)}, {{"dtype", to}}};
  };
  OpDef op = convert_op();
  op.name = "bitcast";
  op.form = ir::OpForm::kOther, op.as_size = nullptr;
  op.doc = "The bits of x read as another dtype of the same size. Whether a NaN keeps its payload is not specified.";
  op.operands = {{"x", "not bool"}};
  op.constraints = {{"C1", "both dtypes have one size and neither is bool"}};
  op.infer = [](const InferContext& ctx) -> InferResult {
    DType from = ctx.operands[0].dtype, to = ctx.attrs.get_dtype("dtype");
    if (bytes_of(from) != bytes_of(to) || from == DType::kBool || to == DType::kBool)
      return ctx.fail(Code::kBadAttribute, "C1", "the bits of {} cannot be read as {}", name_of(from), name_of(to));
    return Types{{to, ctx.shape(0)}};
  };
  op.reference = [](const EvalContext& ctx) -> Literals {
    const Literal& x = ctx.operands[0];
    return {Literal::from_bytes(ctx.attrs().get_dtype("dtype"), x.shape(), x.data())};
  };
  op.vjp = ir::not_differentiable("bits are no numbers");
  op.jvp = ir::not_differentiable("bits are no numbers");
  op.access = [](const TypedOp& t) {
    return map_fragment(t, [&](const std::vector<kernel_ir::Expr>& at) {
      return kernel_ir::call_as(t.results[0].dtype, "bitcast", {load_operand(t, 0, at)});
    });
  };
  op.examples = {one(DType::kF32, DType::kU32, between(-2, 2)),     one(DType::kI32, DType::kF32, between(0, 2e9)),
                 one(DType::kF64, DType::kI64, between(-2, 2)),     one(DType::kF16, DType::kI16, between(-2, 2)),
                 one(DType::kU16, DType::kBF16, between(0, 30000)), one(DType::kI8, DType::kU8, between(-128, 127)),
                 one(DType::kF8E4M3, DType::kI8, between(-16, 16))};
  op.draw = [](Rng& rng) -> Example {
    constexpr std::pair<DType, DType> kPairs[] = {{DType::kF32, DType::kI32},
                                                  {DType::kU32, DType::kF32},
                                                  {DType::kF64, DType::kU64},
                                                  {DType::kBF16, DType::kU16}};
    auto [from, to] = kPairs[random_int(rng, 0, 3)];
    Shape shape = random_shape(rng, static_cast<int>(random_int(rng, 0, 3)), 200);
    return {{operand({from, shape}, between(is_unsigned(from) ? 0 : -100, 1e6))}, {{"dtype", to}}};
  };
  op.rejects = {{"C1", {f32({2})}, {{"dtype", DType::kI64}}},
                {"C1", {boolean({2})}, {{"dtype", DType::kI8}}},
                {"C1", {Type(DType::kI8, {2})}, {{"dtype", DType::kBool}}}};
  return op;
}

// ---- clamp

kernel_ir::Expr clamp_expr(const std::vector<kernel_ir::Expr>& x) {
  return kernel_ir::call("minimum", {kernel_ir::call("maximum", {x[1], x[0]}), x[2]});
}

Val clamp_inside(const Push& p) {
  FunctionBuilder& b = *p.t.b;
  Val inside = b.op("and", {b.op("ge", {p.x[1], p.x[0]}), b.op("le", {p.x[1], p.x[2]})});
  return ir::select(inside, p.t, b.zeros_like(p.t));
}
Val clamp_below(const Push& p) {
  FunctionBuilder& b = *p.t.b;
  Val low_wins = b.op("and", {b.op("lt", {p.x[1], p.x[0]}), b.op("le", {p.x[0], p.x[2]})});
  return ir::select(low_wins, p.t, b.zeros_like(p.t));
}
Val clamp_above(const Push& p) {
  FunctionBuilder& b = *p.t.b;
  Val high_wins = b.op("gt", {b.op("maximum", {p.x[0], p.x[1]}), p.x[2]});
  return ir::select(high_wins, p.t, b.zeros_like(p.t));
}

OpDef clamp_op() {
  auto median = +[](const double* x) {
    if (std::isnan(x[0]) || std::isnan(x[1]) || std::isnan(x[2])) return std::nan("");
    double raised = x[1] < x[0] ? x[0] : x[1];
    return raised > x[2] ? x[2] : raised;
  };
  auto int_median = +[](DType d, const int64_t* x) {
    auto less = [d](int64_t a, int64_t b) {
      return is_unsigned(d) ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
    };
    int64_t raised = less(x[1], x[0]) ? x[0] : x[1];
    return less(x[2], raised) ? x[2] : raised;
  };
  return make_elementwise({
      .name = "clamp",
      .doc =
          "min(max(x, low), high): x kept between two bounds of its own type. Where low > high the result is high. NaN "
          "in any operand gives NaN. The cotangent goes to x inside the bounds (the bounds included) and to the bound "
          "that holds x back elsewhere.",
      .operands = {{"low", "the lower bound"}, {"x", "the operand"}, {"high", "the upper bound"}},
      .domain = Domain::kNumeric,
      .on_floats = median,
      .on_ints = int_median,
      .expr = clamp_expr,
      .push = {clamp_below, clamp_inside, clamp_above},
      .flops = 2,
      .values = {between(-2, 0), between(-3, 3), between(0, 2)},
  });
}

}  // namespace

std::vector<OpDef> other_elementwise_ops() { return {select_op(), convert_op(), bitcast_op(), clamp_op()}; }

}  // namespace nabla::ops
