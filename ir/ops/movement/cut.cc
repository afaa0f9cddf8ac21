// Ops that cut and join: slice, pad, concatenate, reverse.
#include <algorithm>

#include "ir/ops/movement/movement.h"
#include "ir/ops/movement/strided.h"

namespace nabla::ops {
namespace {

using kernel_ir::Expr;
using kernel_ir::Fragment;

Expr at_least(Expr a, int64_t bound) { return kernel_ir::ge(std::move(a), kernel_ir::index(bound)); }

// Dimensions for which `whole` holds pass through; the others keep their positions (`kind`), each tensor on its own.
Factors cut_factors(const TypedOp& op, Factors::Kind kind, const std::function<bool(int)>& whole) {
  Factors out;
  const Type& result = op.results[0];
  auto letter = [&out] { return std::string(1, static_cast<char>('a' + out.factors.size() % 26)); };
  std::vector<int> shared(result.rank(), -1);
  for (int d = 0; d < result.rank(); ++d)
    if (whole(d)) shared[d] = out.add(letter(), result.shape[d]);
  auto tensor = [&](const Type& t) {
    Factors::Tensor dims;
    if (t.rank() != result.rank()) return Factors::Tensor(t.rank());
    for (int d = 0; d < t.rank(); ++d)
      dims.push_back({shared[d] >= 0 ? shared[d] : out.add(letter(), t.shape[d], kind)});
    return dims;
  };
  for (const Type& t : op.operands) out.operands.push_back(tensor(t));
  out.results = {tensor(result)};
  return out;
}

Status require_lengths(const InferContext& ctx, std::initializer_list<const char*> names, std::string_view constraint) {
  for (const char* name : names)
    if (static_cast<int>(ctx.attrs.get_ints(name).size()) != ctx.rank(0))
      return ctx.fail(Code::kBadAttribute, constraint, "{} has {} entries, the operand {} dimensions", name,
                      ctx.attrs.get_ints(name).size(), ctx.rank(0));
  return Ok{};
}

// ---- slice

struct Cut {
  int64_t start, limit, stride;
  bool whole() const { return start == 0 && limit == -1 && stride == 1; }
};
Cut cut_of(const Attrs& attrs, size_t d) {
  return {attrs.get_ints("starts")[d], attrs.get_ints("limits")[d], attrs.get_ints("strides")[d]};
}

InferResult infer_slice(const InferContext& ctx) {
  NABLA_TRY(require_lengths(ctx, {"starts", "limits", "strides"}, "C1"));
  Type result(ctx.operands[0].dtype, {});
  for (size_t d = 0; d < ctx.shape(0).size(); ++d) {
    Cut cut = cut_of(ctx.attrs, d);
    const Dim& extent = ctx.shape(0)[d];
    if (cut.stride < 1)
      return ctx.fail(Code::kBadAttribute, "C2", "stride {} of dimension {} is not positive", cut.stride, d);
    if (!extent.is_static()) {
      if (cut.limit != -1 || cut.stride != 1 || cut.start < 0 || cut.start > extent.bounds().min)
        return ctx.fail(Code::kBadAttribute, "C4", "dimension {} of size {} is symbolic, but is cut to [{}:{}:{}]", d,
                        extent.str(), cut.start, cut.limit, cut.stride);
      result.shape.push_back(extent - Dim(cut.start));
      continue;
    }
    int64_t limit = cut.limit == -1 ? extent.value() : cut.limit;
    if (cut.start < 0 || cut.start > limit || limit > extent.value())
      return ctx.fail(Code::kBadAttribute, "C3", "[{}:{}] is not within dimension {} of size {}", cut.start, cut.limit,
                      d, extent.value());
    result.shape.push_back(Dim((limit - cut.start + cut.stride - 1) / cut.stride));
  }
  return Types{result};
}

std::vector<MaybeVal> slice_vjp(VjpContext& ctx) {
  Ints low, high, interior;
  for (int d = 0; d < ctx.operand(0).rank(); ++d) {
    Cut cut = cut_of(ctx.attrs(), d);
    const Dim& extent = ctx.operand(0).shape()[d];
    low.push_back(cut.start);
    interior.push_back(cut.stride - 1);
    if (!extent.is_static()) {
      high.push_back(0);
      continue;
    }
    int64_t n = ctx.result().shape()[d].value();
    high.push_back(extent.value() - cut.start - (n == 0 ? 0 : (n - 1) * cut.stride + 1));
  }
  Val zero = ctx.b.constant(Literal::scalar(ctx.result().dtype(), 0));
  return {ctx.b.op("pad", {ctx.ct(), zero}, {{"low", low}, {"high", high}, {"interior", interior}})};
}

std::vector<Val> slice_batch(BatchContext& ctx) {
  auto with_front = [&](const char* name, int64_t front) {
    Ints out = ctx.attrs().get_ints(name);
    out.insert(out.begin(), front);
    return out;
  };
  return batch_with(ctx, {{"starts", with_front("starts", 0)},
                          {"limits", with_front("limits", -1)},
                          {"strides", with_front("strides", 1)}});
}

Example draw_slice(Rng& rng) {
  int rank = static_cast<int>(random_int(rng, 0, 3));
  Extents shape = random_extents(rng, rank);
  Ints starts, limits, strides;
  for (int64_t extent : shape) {
    bool whole = random_int(rng, 0, 2) == 0;
    starts.push_back(whole ? 0 : random_int(rng, 0, extent));
    limits.push_back(whole || random_int(rng, 0, 2) == 0 ? -1 : random_int(rng, starts.back(), extent));
    strides.push_back(whole ? 1 : random_int(rng, 1, 3));
  }
  return {{operand(f32(ir::static_shape(shape)))}, {{"starts", starts}, {"limits", limits}, {"strides", strides}}};
}

OpDef slice_op() {
  auto attrs = [](Ints starts, Ints limits, Ints strides) {
    return Attrs{{"starts", std::move(starts)}, {"limits", std::move(limits)}, {"strides", std::move(strides)}};
  };
  return {
      .name = "slice",
      .version = 1,
      .category = "movement",
      .doc =
          "x[start:limit:stride] in each dimension; an empty range gives extent 0. A limit of -1 is the end of the "
          "dimension: write 0, -1, 1 for a whole dimension, which is also what keeps it divisible among devices.",
      .operands = {{"x", "any type"}},
      .attrs = {required("starts", AttrKind::kInts, "first positions"),
                required("limits", AttrKind::kInts, "positions after the last, or -1"),
                required("strides", AttrKind::kInts, "steps")},
      .results = {{"y", "ceil((limit - start) / stride) elements per dimension"}},
      .constraints = {{"C1", "each list has one entry per dimension"},
                      {"C2", "strides are positive"},
                      {"C3", "0 <= start <= limit <= size"},
                      {"C4", "a symbolic dimension is cut at its start only: limit -1, stride 1"}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_slice,
      .reference =
          [](const EvalContext& ctx) {
            Extents strides = strides_of(ctx.operands[0].shape());
            int64_t first = 0;
            for (size_t d = 0; d < strides.size(); ++d) {
              Cut cut = cut_of(ctx.attrs(), d);
              first += cut.start * strides[d];
              strides[d] *= cut.stride;
            }
            return Literals{gathered(ctx.operands[0], ctx.op.results[0], std::move(strides), first)};
          },
      .fold = fold_by_reference(),
      .decompose = ir::no_rule(kPrimitive),
      .vjp = slice_vjp,
      .jvp = jvp_linear,
      .batch = slice_batch,
      .factors =
          [](const TypedOp& op) {
            return cut_factors(op, Factors::Kind::kPermute, [&](int d) { return cut_of(op.attrs, d).whole(); });
          },
      .rank_rule = ir::RankRule::kSlice,
      .form = ir::OpForm::kSlice,
      .access =
          [](const TypedOp& op) {
            Fragment out;
            std::vector<int> axes = out.add_axes("i", op.results[0].shape);
            std::vector<Expr> source;
            for (size_t d = 0; d < axes.size(); ++d) {
              Cut cut = cut_of(op.attrs, d);
              source.push_back(kernel_ir::axis(axes[d]) * kernel_ir::index(cut.stride) + kernel_ir::index(cut.start));
            }
            out.results = {out.map("y", op.results[0].dtype, axes, load_operand(op, 0, source))};
            return out;
          },
      .linearity = ir::moves({0}),
      .lower = Lowering::kAccess,
      .cost =
          [](const TypedOp& op) {
            return Cost{Dim(0), Dim(2) * op.results[0].bytes()};
          },
      .dtypes = DTypes::kAll,
      .examples = {{{operand(f32({5}), awkward())}, attrs({1}, {4}, {1})},
                   {{operand(f32({4, 7}))}, attrs({0, 1}, {-1, 7}, {1, 3})},
                   {{operand(f32({3, 2}))}, attrs({2, 1}, {2, -1}, {1, 1})}},
      .draw = draw_slice,
      .rejects = {{"C1", {f32({5})}, attrs({1, 1}, {4}, {1})},
                  {"C2", {f32({5})}, attrs({1}, {4}, {0})},
                  {"C3", {f32({5})}, attrs({1}, {6}, {1})},
                  {"C3", {f32({5})}, attrs({3}, {2}, {1})},
                  {"C4",
                   {f32({Dim::symbol(std::make_shared<ir::Symbol>(ir::Symbol{"n", 1, 64, 1}))})},
                   attrs({0}, {4}, {1})}},
  };
}

// ---- pad

struct Padding {
  int64_t low, high, interior;
  int64_t step() const { return interior + 1; }
  bool whole() const { return low == 0 && high == 0 && interior == 0; }
};
Padding padding_of(const Attrs& attrs, size_t d) {
  return {attrs.get_ints("low")[d], attrs.get_ints("high")[d], attrs.get_ints("interior")[d]};
}

InferResult infer_pad(const InferContext& ctx) {
  NABLA_TRY(ctx.require_same_dtype(0, 1, "C1"));
  if (ctx.rank(1) != 0)
    return ctx.fail(Code::kShapeMismatch, "C1", "the padding value must be a scalar, got {}", ctx.operands[1].str());
  NABLA_TRY(require_lengths(ctx, {"low", "high", "interior"}, "C2"));
  Type result(ctx.operands[0].dtype, {});
  for (size_t d = 0; d < ctx.shape(0).size(); ++d) {
    Padding p = padding_of(ctx.attrs, d);
    const Dim& extent = ctx.shape(0)[d];
    if (p.interior < 0 || (p.interior > 0 && !extent.is_static()))
      return ctx.fail(Code::kBadAttribute, "C3", "interior padding {} of dimension {} with size {}", p.interior, d,
                      extent.str());
    Dim gaps = extent.is_static() ? Dim(std::max<int64_t>(extent.value() - 1, 0) * p.interior) : Dim(0);
    Dim size = extent + gaps + Dim(p.low + p.high);
    if (size.bounds().min < 0)
      return ctx.fail(Code::kBadAttribute, "C4", "padding {} and {} leaves {} elements of dimension {}", p.low, p.high,
                      size.str(), d);
    result.shape.push_back(size);
  }
  return Types{result};
}

Literals pad_reference(const EvalContext& ctx) {
  const Literal& x = ctx.operands[0];
  Literal out = filled(ctx.op.results[0], ctx.operands[1]);
  // Of each dimension of x the elements [begin, end) stay; the first of them goes to low + begin * step.
  Nest<2> nest{{}, {strides_of(out.shape()), strides_of(x.shape())}, {}};
  for (size_t d = 0; d < x.shape().size(); ++d) {
    Padding p = padding_of(ctx.attrs(), d);
    int64_t step = p.step(), begin = p.low < 0 ? (step - 1 - p.low) / step : 0, space = out.shape()[d] - p.low;
    int64_t end = std::min(x.shape()[d], space > 0 ? (space + step - 1) / step : 0);
    nest.shape.push_back(std::max<int64_t>(0, end - begin));
    nest.first[0] += (p.low + begin * step) * nest.strides[0][d];
    nest.first[1] += begin * nest.strides[1][d];
    nest.strides[0][d] *= step;
  }
  copy_strided(out, x, nest);
  return {out};
}

Fragment pad_access(const TypedOp& op) {
  Fragment out;
  std::vector<int> axes = out.add_axes("i", op.results[0].shape);
  std::vector<Expr> source;
  Expr guard = kernel_ir::constant_int(DType::kBool, 1);
  for (size_t d = 0; d < axes.size(); ++d) {
    Padding p = padding_of(op.attrs, d);
    Expr position = kernel_ir::axis(axes[d]) + kernel_ir::index(-p.low);
    if (p.low > 0) guard = kernel_ir::both(guard, at_least(position, 0));
    if (p.interior > 0)
      guard = kernel_ir::both(guard, kernel_ir::eq(kernel_ir::mod(position, p.step()), kernel_ir::index(0)));
    position = kernel_ir::floordiv(position, p.step());
    if (p.high > 0) guard = kernel_ir::both(guard, kernel_ir::lt(position, kernel_ir::dim(op.operands[0].shape[d])));
    source.push_back(position);
  }
  Expr value = kernel_ir::guarded_load(op.operands[0].dtype, 0, source, guard, load_operand(op, 1, {}));
  out.results = {out.map("y", op.results[0].dtype, axes, value)};
  return out;
}

Ints negated(Ints list) {
  for (int64_t& v : list) v = -v;
  return list;
}

// What the operand's elements get: the padding undone, which is padding by the negative amounts, then every step-th.
Val unpad(FunctionBuilder& b, Val ct, const Attrs& attrs) {
  const Ints& interior = attrs.get_ints("interior");
  Val zero = b.constant(Literal::scalar(ct.dtype(), 0));
  int rank = ct.rank();
  Val inner = b.op("pad", {ct, zero},
                   {{"low", negated(attrs.get_ints("low"))},
                    {"high", negated(attrs.get_ints("high"))},
                    {"interior", Ints(rank, 0)}});
  if (std::all_of(interior.begin(), interior.end(), [](int64_t i) { return i == 0; })) return inner;
  Ints strides;
  for (int64_t i : interior) strides.push_back(i + 1);
  return b.op("slice", {inner}, {{"starts", Ints(rank, 0)}, {"limits", Ints(rank, -1)}, {"strides", strides}});
}

std::vector<MaybeVal> pad_vjp(VjpContext& ctx) {
  std::vector<MaybeVal> out(2);
  Val ct = ctx.ct();
  Val d_operand = unpad(ctx.b, ct, ctx.attrs());
  if (ctx.active[0]) out[0] = d_operand;
  if (ctx.active[1]) {
    Ints all = ir::iota_ints(ct.rank());
    out[1] = ir::reduce_sum(ct, all) - ir::reduce_sum(d_operand, all);
  }
  return out;
}

std::vector<Val> pad_batch(BatchContext& ctx) {
  auto with_front = [&](const char* name) {
    Ints out = ctx.attrs().get_ints(name);
    out.insert(out.begin(), 0);
    return out;
  };
  Attrs attrs = {{"low", with_front("low")}, {"high", with_front("high")}, {"interior", with_front("interior")}};
  Val x = ctx.batched_operand(0), value = ctx.operands[1];
  if (!ctx.batched[1]) return {ctx.b.op("pad", {x, value}, attrs)};
  // Each example has its own padding value: chosen where a padded mask says so.
  FunctionBuilder& b = ctx.b;
  Val no = b.constant(Literal::scalar_int(DType::kBool, 0)), zero = b.constant(Literal::scalar(x.dtype(), 0));
  Val inside = b.op("pad", {b.fill(DType::kBool, x.shape(), 1), no}, attrs);
  Val padded = b.op("pad", {x, zero}, attrs);
  return {ir::select(inside, padded, ir::broadcast_in_dim(value, padded.shape(), {0}))};
}

Example draw_pad(Rng& rng) {
  int rank = static_cast<int>(random_int(rng, 0, 3));
  Extents shape = random_extents(rng, rank, 200);
  Ints low, high, interior;
  for (int64_t extent : shape) {
    bool whole = random_int(rng, 0, 2) == 0;
    interior.push_back(whole ? 0 : random_int(rng, 0, 2));
    int64_t inside = extent + std::max<int64_t>(extent - 1, 0) * interior.back();
    low.push_back(whole ? 0 : random_int(rng, -std::min<int64_t>(inside, 2), 3));
    int64_t left = inside + std::min<int64_t>(low.back(), 0);
    high.push_back(whole ? 0 : random_int(rng, -std::min<int64_t>(left, 2), 3));
  }
  return {{operand(f32(ir::static_shape(shape))), operand(f32({}))},
          {{"low", low}, {"high", high}, {"interior", interior}}};
}

OpDef pad_op() {
  auto attrs = [](Ints low, Ints high, Ints interior) {
    return Attrs{{"low", std::move(low)}, {"high", std::move(high)}, {"interior", std::move(interior)}};
  };
  return {
      .name = "pad",
      .version = 1,
      .category = "movement",
      .doc =
          "x with `value` around it (low, high) and between its elements (interior). Negative low and high cut "
          "elements off, after the interior padding.",
      .operands = {{"x", "any type"}, {"value", "a scalar of x's dtype"}},
      .attrs = {required("low", AttrKind::kInts, "elements before, per dimension"),
                required("high", AttrKind::kInts, "elements after"),
                required("interior", AttrKind::kInts, "elements between neighbours, >= 0")},
      .results = {{"y", "low + n + (n - 1) * interior + high elements per dimension"}},
      .constraints = {{"C1", "value is a scalar of x's dtype"},
                      {"C2", "each list has one entry per dimension"},
                      {"C3", "interior padding is not negative, and 0 for a symbolic dimension"},
                      {"C4", "no size of the result is negative"}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_pad,
      .reference = pad_reference,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule(kPrimitive),
      .vjp = pad_vjp,
      .jvp = jvp_linear,
      .batch = pad_batch,
      .factors =
          [](const TypedOp& op) {
            return cut_factors(op, Factors::Kind::kPermute, [&](int d) { return padding_of(op.attrs, d).whole(); });
          },
      .rank_rule = ir::RankRule::kPad,
      .form = ir::OpForm::kPad,
      .access = pad_access,
      .linearity = ir::moves({0, 1}),
      .lower = Lowering::kAccess,
      .cost = movement_cost,
      .dtypes = DTypes::kAll,
      .examples = {{{operand(f32({3}), awkward()), operand(f32({}))}, attrs({1}, {2}, {0})},
                   {{operand(f32({3, 4})), operand(f32({}))}, attrs({-1, 0}, {1, -2}, {1, 0})},
                   {{operand(f32({2, 5})), operand(f32({}))}, attrs({0, 1}, {0, 0}, {0, 2})}},
      .draw = draw_pad,
      .rejects = {{"C1", {f32({3}), i32({})}, attrs({1}, {1}, {0})},
                  {"C1", {f32({3}), f32({1})}, attrs({1}, {1}, {0})},
                  {"C2", {f32({3}), f32({})}, attrs({1}, {1}, {})},
                  {"C3", {f32({3}), f32({})}, attrs({1}, {1}, {-1})},
                  {"C4", {f32({3}), f32({})}, attrs({-2}, {-2}, {0})}},
  };
}

// ---- concatenate

InferResult infer_concatenate(const InferContext& ctx) {
  int64_t axis = ctx.attrs.get_int("axis");
  NABLA_TRY(ctx.require_axis(axis, ctx.rank(0), "C1"));
  Type result = ctx.operands[0];
  for (int k = 1; k < static_cast<int>(ctx.operands.size()); ++k) {
    NABLA_TRY(ctx.require_same_dtype(0, k, "C2"));
    if (ctx.rank(k) != ctx.rank(0))
      return ctx.fail(Code::kShapeMismatch, "C2", "operand {} has rank {}, the first has {}", k, ctx.rank(k),
                      ctx.rank(0));
    for (int d = 0; d < ctx.rank(0); ++d)
      if (d != axis)
        NABLA_TRY(ctx.require_equal(ctx.shape(0)[d], ctx.shape(k)[d], "C3",
                                    fmt::format("sizes of operands 0 and {} in dimension {}", k, d)));
    result.shape[axis] = result.shape[axis] + ctx.shape(k)[axis];
  }
  return Types{result};
}

Literals concatenate_reference(const EvalContext& ctx) {
  Literal out = Literal::uninitialized(ctx.op.results[0].dtype, ctx.op.results[0].extents());
  Extents strides = strides_of(out.shape());
  int64_t axis = ctx.attrs().get_int("axis"), first = 0;
  for (const Literal& piece : ctx.operands) {
    place(out, piece, strides, first);
    first += piece.shape()[axis] * strides[axis];
  }
  return {out};
}

// Nested guarded loads. Each has its whole range as guard, so that none reads out of range even if a target
// evaluates all of them.
Fragment concatenate_access(const TypedOp& op) {
  Fragment out;
  int64_t axis = op.attrs.get_int("axis");
  DType dtype = op.results[0].dtype;
  std::vector<int> axes = out.add_axes("i", op.results[0].shape);
  Dim offset = op.results[0].shape[axis];
  Expr value = kernel_ir::constant_int(dtype, 0);
  for (size_t k = op.operands.size(); k-- > 0;) {
    Dim end = offset;
    offset = offset - op.operands[k].shape[axis];
    std::vector<Expr> source = kernel_ir::axes_as_indices(axes);
    Expr position = source[axis];
    source[axis] = position - kernel_ir::dim(offset);
    Expr guard = kernel_ir::constant_int(DType::kBool, 1);
    if (k > 0) guard = kernel_ir::ge(position, kernel_ir::dim(offset));
    if (k + 1 < op.operands.size()) guard = kernel_ir::both(guard, kernel_ir::lt(position, kernel_ir::dim(end)));
    value = kernel_ir::guarded_load(dtype, static_cast<int>(k), source, guard, value);
  }
  out.results = {out.map("y", dtype, axes, value)};
  return out;
}

std::vector<MaybeVal> concatenate_vjp(VjpContext& ctx) {
  int64_t axis = ctx.attrs().get_int("axis");
  Dim offset = 0;
  std::vector<MaybeVal> out(ctx.operands.size());
  if (out.size() == 1) return {ctx.ct()};
  int rank = ctx.result().rank();
  bool symbolic = !ctx.result().shape()[axis].is_static();
  for (size_t k = 0; k < out.size(); ++k) {
    Dim size = ctx.operands[k].shape()[axis], first = offset;
    offset = offset + size;
    if (!ctx.active[k]) continue;
    if (symbolic) {
      out[k] = ctx.b.op("section", {ctx.ct()}, {{"axis", axis}, {"range", Shape{first, size}}});
      continue;
    }
    Ints starts(rank, 0), limits(rank, -1);
    starts[axis] = first.value();
    limits[axis] = offset.value();
    out[k] = ctx.b.op("slice", {ctx.ct()}, {{"starts", starts}, {"limits", limits}, {"strides", Ints(rank, 1)}});
  }
  return out;
}

OpDef concatenate_op() {
  auto attrs = [](int64_t axis) { return Attrs{{"axis", axis}}; };
  return {
      .name = "concatenate",
      .version = 1,
      .category = "movement",
      .doc = "The operands one after the other along `axis`.",
      .operands = {{"pieces", "of one dtype; equal in every other dimension", true}},
      .attrs = {required("axis", AttrKind::kInt, "along which they are joined")},
      .results = {{"y", "the sizes along `axis` added up"}},
      .constraints = {{"C1", "axis is in [0, rank)"},
                      {"C2", "all operands have the same dtype and rank"},
                      {"C3", "they have the same size in every other dimension"}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_concatenate,
      .reference = concatenate_reference,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule(kPrimitive),
      .vjp = concatenate_vjp,
      .jvp = jvp_linear,
      .batch = batch_shifting({"axis"}),
      .factors =
          [](const TypedOp& op) {
            int64_t axis = op.attrs.get_int("axis");
            return cut_factors(op, Factors::Kind::kReplicate, [axis](int d) { return d != axis; });
          },
      .rank_rule = ir::RankRule::kConcatenate,
      .form = ir::OpForm::kConcatenate,
      .access = concatenate_access,
      .linearity = ir::moves({0}),
      .lower = Lowering::kAccess,
      .cost = movement_cost,
      .dtypes = DTypes::kAll,
      .examples = {{{operand(f32({2, 3}), awkward()), operand(f32({2, 1})), operand(f32({2, 2}))}, attrs(1)},
                   {{operand(f32({0, 2})), operand(f32({3, 2}))}, attrs(0)},
                   {{operand(f32({3}))}, attrs(0)}},
      .draw = [attrs](Rng& rng) -> Example {
        int rank = static_cast<int>(random_int(rng, 1, 3));
        Shape shape = random_shape(rng, rank, 200);
        int64_t axis = random_int(rng, 0, rank - 1);
        std::vector<Operand> pieces;
        for (int64_t n = random_int(rng, 1, 4); n > 0; --n) {
          shape[axis] = random_dim(rng, 7);
          pieces.push_back(operand(f32(shape)));
        }
        return {pieces, attrs(axis)};
      },
      .rejects = {{"C1", {f32({2}), f32({2})}, attrs(1)},
                  {"C2", {f32({2}), i32({2})}, attrs(0)},
                  {"C2", {f32({2}), f32({2, 2})}, attrs(0)},
                  {"C3", {f32({2, 3}), f32({2, 4})}, attrs(0)}},
  };
}

// ---- reverse

OpDef reverse_op() {
  auto attrs = [](Ints axes) { return Attrs{{"axes", std::move(axes)}}; };
  return {
      .name = "reverse",
      .version = 1,
      .category = "movement",
      .doc = "The elements in opposite order along each of `axes`.",
      .operands = {{"x", "any type"}},
      .attrs = {required("axes", AttrKind::kInts, "dimensions to turn round")},
      .results = {{"y", "of x's type"}},
      .constraints = {{"C1", "axes are in [0, rank), each once"}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = [](const InferContext& ctx) -> InferResult {
        NABLA_TRY(require_axes(ctx, ctx.attrs.get_ints("axes"), ctx.rank(0), "C1"));
        return Types{ctx.operands[0]};
      },
      .reference =
          [](const EvalContext& ctx) {
            const Literal& x = ctx.operands[0];
            Extents strides = strides_of(x.shape());
            int64_t first = 0;
            for (int64_t a : ctx.attrs().get_ints("axes")) {
              first += (x.shape()[a] - 1) * strides[a];
              strides[a] = -strides[a];
            }
            return Literals{gathered(x, ctx.op.results[0], std::move(strides), first)};
          },
      .fold = fold_by_reference(),
      .decompose = ir::no_rule(kPrimitive),
      .vjp = [](VjpContext& ctx) { return std::vector<MaybeVal>{ctx.b.op("reverse", {ctx.ct()}, ctx.attrs())}; },
      .jvp = jvp_linear,
      .batch = batch_shifting({"axes"}),
      .factors =
          [](const TypedOp& op) {
            return cut_factors(op, Factors::Kind::kPermute,
                               [&](int d) { return !contains(op.attrs.get_ints("axes"), d); });
          },
      .rank_rule = ir::RankRule::kReverse,
      .access =
          [](const TypedOp& op) {
            Fragment out;
            std::vector<int> axes = out.add_axes("i", op.results[0].shape);
            std::vector<Expr> source = kernel_ir::axes_as_indices(axes);
            for (int64_t a : op.attrs.get_ints("axes"))
              source[a] = kernel_ir::dim(op.operands[0].shape[a] - Dim(1)) - source[a];
            out.results = {out.map("y", op.results[0].dtype, axes, load_operand(op, 0, source))};
            return out;
          },
      .linearity = ir::moves({0}),
      .lower = Lowering::kAccess,
      .cost = movement_cost,
      .dtypes = DTypes::kAll,
      .examples = {{{operand(f32({5}), awkward())}, attrs({0})},
                   {{operand(f32({2, 3, 2}))}, attrs({0, 2})},
                   {{operand(f32({}))}, attrs({})}},
      .draw = [attrs](Rng& rng) -> Example {
        int rank = static_cast<int>(random_int(rng, 0, 3));
        return {{operand(f32(random_shape(rng, rank)))}, attrs(random_axes(rng, rank))};
      },
      .rejects = {{"C1", {f32({5})}, attrs({1})}, {"C1", {f32({5})}, attrs({0, 0})}},
  };
}

}  // namespace

std::vector<OpDef> cut_ops() { return {slice_op(), pad_op(), concatenate_op(), reverse_op()}; }

}  // namespace nabla::ops
