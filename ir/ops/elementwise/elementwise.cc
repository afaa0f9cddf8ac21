// From a row to a record.
#include "ir/ops/elementwise/elementwise.h"

#include <algorithm>

#include "ir/kernel_ir/rows.h"
#include "ir/ops/all_ops.h"

namespace nabla::ops {
namespace {

bool admits(Domain domain, DType dtype) {
  switch (domain) {
    case Domain::kFloat:
      return is_float(dtype);
    case Domain::kNumeric:
      return dtype != DType::kBool;
    case Domain::kBits:
      return !is_float(dtype);
    case Domain::kAny:
      return true;
    case Domain::kInteger:
      return is_integer(dtype);
  }
  return false;
}

constexpr std::string_view domain_text(Domain domain) {
  constexpr std::string_view kTexts[] = {"floating", "numeric", "bool or an integer", "anything", "an integer"};
  return kTexts[static_cast<int>(domain)];
}

InferResult infer(const ElementwiseSpec& spec, const InferContext& ctx) {
  const Type& first = ctx.operands[0];
  if (!admits(spec.domain, first.dtype))
    return ctx.fail(Code::kDTypeMismatch, "C1", "operands must be {}, got {}", domain_text(spec.domain),
                    name_of(first.dtype));
  for (size_t i = 1; i < ctx.operands.size(); ++i) NABLA_TRY(ctx.require_same_type(0, static_cast<int>(i), "C2"));
  return Types{{spec.predicate ? DType::kBool : first.dtype, first.shape}};
}

/// f(the operands' elements at one place), everywhere.
template <class Wide, class F>
Literal mapped(const EvalContext& ctx, F f) {
  Literal out = zeros(ctx.op.results[0]);
  size_t n = ctx.operands.size();
  std::vector<Wide> row(kRowBlock), x(n * kRowBlock);  // x: the elements of one place side by side
  for (int64_t begin = 0; begin < out.size(); begin += kRowBlock) {
    int64_t count = std::min(kRowBlock, out.size() - begin);
    for (size_t j = 0; j < n; ++j) {
      read_row(ctx.operands[j], begin, 1, count, row.data());
      for (int64_t i = 0; i < count; ++i) x[i * n + j] = row[i];
    }
    for (int64_t i = 0; i < count; ++i) row[i] = f(&x[i * n]);
    write_row(out, begin, 1, count, row.data());
  }
  return out;
}

Literals reference(const ElementwiseSpec& spec, const EvalContext& ctx) {
  DType dtype = ctx.operands[0].dtype();
  if (is_float(dtype)) return {mapped<double>(ctx, spec.on_floats)};
  return {mapped<int64_t>(ctx, [&](const int64_t* x) { return spec.on_ints(dtype, x); })};
}

std::vector<MaybeVal> vjp(const ElementwiseSpec& spec, VjpContext& ctx) {
  std::vector<MaybeVal> out(ctx.operands.size());
  for (size_t i = 0; i < out.size(); ++i)
    if (ctx.active[i] && spec.push[i]) out[i] = spec.push[i]({ctx.ct(), ctx.operands, ctx.result()});
  return out;
}

std::vector<MaybeVal> jvp(const ElementwiseSpec& spec, JvpContext& ctx) {
  MaybeVal sum;
  for (size_t i = 0; i < ctx.operands.size(); ++i)
    if (ctx.tangents[i] && spec.push[i])
      sum = add_maybe(sum, spec.push[i]({*ctx.tangents[i], ctx.operands, ctx.result()}));
  return {sum};
}

kernel_ir::Fragment access(const ElementwiseSpec& spec, const TypedOp& op) {
  return map_fragment(op, [&](const std::vector<kernel_ir::Expr>& at) {
    std::vector<kernel_ir::Expr> x;
    for (size_t k = 0; k < op.operands.size(); ++k) x.push_back(load_operand(op, static_cast<int>(k), at));
    return spec.expr ? spec.expr(x) : kernel_ir::call(spec.name, std::move(x));
  });
}

Example example(const ElementwiseSpec& spec, DType dtype, const Shape& shape, bool awkward) {
  Example out;
  for (ValueSpec values : spec.values) {
    values.awkward = awkward;
    out.operands.push_back({{dtype, shape}, values});
  }
  return out;
}

std::vector<Example> examples(const ElementwiseSpec& spec) {
  size_t n = spec.operands.size();
  if (spec.domain == Domain::kInteger)
    return {{std::vector<Operand>(n, operand(i32({2, 9}), between(-40, 40))), {}},
            {std::vector<Operand>(n, operand({DType::kI8, {33}}, between(-12, 12))), {}},
            {std::vector<Operand>(n, operand({DType::kU16, {}}, between(0, 20))), {}},
            {std::vector<Operand>(n, operand({DType::kU64, {7}}, between(0, 70))), {}}};
  if (spec.domain == Domain::kBits) {
    return {{std::vector<Operand>(n, operand(boolean({5}), between(0, 1))), {}},
            {std::vector<Operand>(n, operand(i32({2, 3}), between(-9, 9))), {}},
            {std::vector<Operand>(n, operand({DType::kU8, {7}}, between(0, 255))), {}}};
  }
  std::vector<Example> out = {example(spec, DType::kF32, {2, 3}, false), example(spec, DType::kF32, {}, false),
                              example(spec, DType::kF32, {33}, true)};
  // Small ranges meet zero divisors and ties; large ones wrap around.
  if (spec.domain != Domain::kFloat) {
    out.push_back({std::vector<Operand>(n, operand(i32({17}), between(-2, 2))), {}});
    out.push_back({std::vector<Operand>(n, operand({DType::kI8, {33}}, between(-128, 127))), {}});
    out.push_back({std::vector<Operand>(n, operand({DType::kU64, {7}}, between(0, 9))), {}});
  }
  return out;
}

Example draw(const ElementwiseSpec& spec, Rng& rng) {
  Shape shape = random_shape(rng, static_cast<int>(random_int(rng, 0, 3)));
  if (spec.domain == Domain::kInteger)
    return {std::vector<Operand>(spec.operands.size(),
                                 operand(random_bool(rng) ? i32(shape) : i64(shape), between(-70, 70))),
            {}};
  if (spec.domain != Domain::kBits) return example(spec, DType::kF32, shape, random_bool(rng));
  Type type = random_bool(rng) ? boolean(shape) : i32(shape);
  return {std::vector<Operand>(spec.operands.size(), operand(type, between(0, 1))), {}};
}

std::vector<ir::Constraint> constraints(const ElementwiseSpec& spec) {
  std::vector<ir::Constraint> out;
  if (spec.domain != Domain::kAny) out.push_back({"C1", fmt::format("the dtype is {}", domain_text(spec.domain))});
  if (spec.operands.size() > 1) out.push_back({"C2", "all operands have the same dtype and shape"});
  return out;
}

std::vector<Reject> rejects(const ElementwiseSpec& spec) {
  std::vector<Reject> out;
  size_t n = spec.operands.size();
  bool integer = spec.domain == Domain::kBits || spec.domain == Domain::kInteger;
  DType good = integer ? DType::kI32 : DType::kF32;
  DType bad = spec.domain == Domain::kFloat     ? DType::kI32
              : spec.domain == Domain::kNumeric ? DType::kBool
                                                : DType::kF32;
  if (spec.domain != Domain::kAny) out.push_back({"C1", Types(n, {bad, {3}}), {}});
  if (n > 1) {
    Types shapes(n, {good, {3}}), dtypes(n, {good, {3}});
    shapes.back().shape = {1};
    dtypes.back().dtype = DType::kI64;
    out.push_back({"C2", shapes, {}});
    out.push_back({"C2", dtypes, {}});
  }
  return out;
}

DTypes dtypes_of(Domain domain) {
  constexpr DTypes kByDomain[] = {DTypes::kFloats, DTypes::kNumeric, DTypes::kAsWritten, DTypes::kAll,
                                  DTypes::kAsWritten};
  return kByDomain[static_cast<int>(domain)];
}

}  // namespace

kernel_ir::Fragment map_fragment(const TypedOp& op,
                                 const std::function<kernel_ir::Expr(const std::vector<kernel_ir::Expr>&)>& value) {
  kernel_ir::Fragment out;
  const Type& result = op.results[0];
  std::vector<int> axes = out.add_axes("i", result.shape);
  out.results = {out.map("y", result.dtype, axes, value(kernel_ir::axes_as_indices(axes)))};
  return out;
}

OpDef make_elementwise(ElementwiseSpec s) {
  auto spec = std::make_shared<const ElementwiseSpec>(std::move(s));
  ir::Rule<std::vector<MaybeVal>(VjpContext&)> vjp_rule = ir::not_differentiable(spec->refusal);
  ir::Rule<std::vector<MaybeVal>(JvpContext&)> jvp_rule = ir::not_differentiable(spec->refusal);
  if (spec->refusal.empty()) {
    NABLA_CHECK(spec->push.size() == spec->operands.size(), "{}: a derivative per operand", spec->name);
    vjp_rule = [spec](VjpContext& ctx) { return vjp(*spec, ctx); };
    jvp_rule = [spec](JvpContext& ctx) { return jvp(*spec, ctx); };
  }
  return {
      .name = spec->name,
      .version = 1,
      .category = "elementwise",
      .doc = spec->doc,
      .operands = spec->operands,
      .attrs = {},
      .results = {{"y", spec->predicate ? "bool, of the operands' shape" : "of the operands' type"}},
      .constraints = constraints(*spec),
      .traits = {.elementwise = true, .commutative = spec->commutative},
      .stages = ir::kTensorStages,
      .infer = [spec](const InferContext& ctx) { return infer(*spec, ctx); },
      .reference = [spec](const EvalContext& ctx) { return reference(*spec, ctx); },
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("primitive"),
      .vjp = vjp_rule,
      .jvp = jvp_rule,
      .batch = batch_elementwise,
      .factors = [](const TypedOp& op) { return Factors::pointwise(op); },
      .form = spec->form,
      .as_size = spec->as_size,
      .access = [spec](const TypedOp& op) { return access(*spec, op); },
      .linearity = spec->linearity,
      .lower = Lowering::kAccess,
      .cost = [spec](const TypedOp& op) { return ir::pointwise_cost(op, spec->flops); },
      .dtypes = dtypes_of(spec->domain),
      .examples = examples(*spec),
      .draw = [spec](Rng& rng) { return draw(*spec, rng); },
      .rejects = rejects(*spec),
  };
}

std::vector<OpDef> elementwise_ops() {
  std::vector<OpDef> out = unary_ops();
  for (auto family : {binary_ops, other_elementwise_ops})
    for (OpDef& op : family()) out.push_back(std::move(op));
  return out;
}

}  // namespace nabla::ops
