// Reductions over whole axes: sum, prod, max, min, and, or; and the positions of extremes: argmax, argmin.
#include <algorithm>
#include <cmath>

#include "ir/kernel_ir/rows.h"
#include "ir/ops/all_ops.h"
#include "ir/ops/movement/placed.h"
#include "ir/ops/movement/strided.h"
#include "ir/ops/procedure.h"

namespace nabla::ops {
namespace {

using kernel_ir::Combiner;
using kernel_ir::Expr;
using kernel_ir::Fragment;

// ---- What every reduction shares.

const Ints& axes_of(const Attrs& attrs) { return attrs.get_ints("axes"); }

InferResult infer_reduce(const InferContext& ctx, Combiner combiner) {
  DType dtype = ctx.operands[0].dtype;
  bool logical = combiner == Combiner::kAnd || combiner == Combiner::kOr;
  if (logical && is_float(dtype))
    return ctx.fail(Code::kDTypeMismatch, "C1", "the operand must be bool or an integer, got {}", name_of(dtype));
  if (!logical && dtype == DType::kBool)
    return ctx.fail(Code::kDTypeMismatch, "C1", "the operand must be a number, got bool; use reduce_and or reduce_or");
  const Ints& axes = axes_of(ctx.attrs);
  NABLA_TRY(require_axes(ctx, axes, ctx.rank(0), "C2"));
  for (size_t i = 1; i < axes.size(); ++i)
    if (axes[i] <= axes[i - 1])
      return ctx.fail(Code::kBadAttribute, "C3", "axis {} stands after axis {}", axes[i], axes[i - 1]);
  return Types{Type(dtype, without_axes(ctx.shape(0), axes))};
}

double combine(Combiner combiner, double a, double b) {
  if (combiner == Combiner::kSum) return a + b;
  if (combiner == Combiner::kProd) return a * b;
  if (a > b || a < b) return (a > b) == (combiner == Combiner::kMax) ? a : b;
  return std::isnan(a) || std::isnan(b) ? NAN : a;  // zeros of two signs: the first
}

int64_t combine(Combiner combiner, DType dtype, int64_t a, int64_t b) {
  uint64_t ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  bool less = is_unsigned(dtype) ? ua < ub : a < b;
  switch (combiner) {
    case Combiner::kSum:
      return static_cast<int64_t>(ua + ub);
    case Combiner::kProd:
      return static_cast<int64_t>(ua * ub);
    case Combiner::kMax:
      return less ? b : a;
    case Combiner::kMin:
      return less ? a : b;
    case Combiner::kAnd:
      return a & b;
    default:
      return a | b;
  }
}

/// Strides of the result along the operand's dimensions: 0 along `axes`.
Extents kept_strides(const Extents& shape, const Ints& axes, const Extents& result) {
  Extents out(shape.size(), 0), strides = strides_of(result);
  Ints kept = other_axes(static_cast<int>(shape.size()), axes);
  for (size_t i = 0; i < kept.size(); ++i) out[kept[i]] = strides[i];
  return out;
}

/// x reduced over `axes`, from `identity` on, in row-major order of x.
template <class Wide, class F>
Literal reduced(const Literal& x, const Ints& axes, const Type& result, Wide identity, F combine) {
  Literal out = zeros(result);
  std::vector<Wide> values(out.size(), identity), row(kRowBlock);
  Nest<2> nest{x.shape(), {strides_of(x.shape()), kept_strides(x.shape(), axes, out.shape())}, {}};
  for_each_row(nest, [&](const auto& at, int64_t count, const auto& step) {
    for (int64_t begin = 0; begin < count; begin += kRowBlock) {
      int64_t block = std::min(kRowBlock, count - begin);
      read_row(x, at[0] + begin * step[0], step[0], block, row.data());
      Wide* to = &values[at[1] + begin * step[1]];
      if (step[1] == 0) {
        Wide value = *to;
        for (int64_t i = 0; i < block; ++i) value = combine(value, row[i]);
        *to = value;
      } else {
        for (int64_t i = 0; i < block; ++i) to[i * step[1]] = combine(to[i * step[1]], row[i]);
      }
    }
  });
  write_row(out, 0, 1, out.size(), values.data());
  return out;
}

Literals reference_reduce(const EvalContext& ctx, Combiner combiner) {
  const Literal& x = ctx.operands[0];
  const Type& result = ctx.op.results[0];
  const Ints& axes = axes_of(ctx.attrs());
  Expr identity = kernel_ir::identity_of(combiner, x.dtype());
  if (!is_float(x.dtype()))
    return {reduced(x, axes, result, identity->integer,
                    [&](int64_t a, int64_t b) { return combine(combiner, x.dtype(), a, b); })};
  if (combiner == Combiner::kSum)  // a loop of its own: the commonest
    return {reduced(x, axes, result, identity->number, [](double a, double b) { return a + b; })};
  return {reduced(x, axes, result, identity->number, [&](double a, double b) { return combine(combiner, a, b); })};
}

/// The axes of the operand in `f`: one per dimension; `kept` and `reduced` in order.
struct Split {
  std::vector<int> all, kept, reduced;
};
Split split_axes(Fragment& f, const Shape& shape, const Ints& axes) {
  Split s;
  for (size_t d = 0; d < shape.size(); ++d) {
    bool reduced = contains(axes, static_cast<int64_t>(d));
    s.all.push_back(f.add_axis((reduced ? "r" : "i") + std::to_string(d), shape[d]));
    (reduced ? s.reduced : s.kept).push_back(s.all.back());
  }
  return s;
}

Fragment access_reduce(const TypedOp& op, Combiner combiner) {
  Fragment f;
  Split s = split_axes(f, op.operands[0].shape, axes_of(op.attrs));
  Expr x = load_wide(op, 0, kernel_ir::axes_as_indices(s.all));
  int d = s.reduced.empty() ? f.map("out", x->dtype, s.kept, x)
                            : f.reduce("reduced", x->dtype, s.kept, combiner, s.reduced, x);
  f.results = {round_definition(f, d, op.results[0].dtype, "out")};
  return f;
}

Factors factors_over(const TypedOp& op, const Ints& axes, Factors::Kind kind, Combiner combiner) {
  Factors f;
  Factors::Tensor operand, result;
  for (int d = 0; d < op.operands[0].rank(); ++d) {
    bool reduced = contains(axes, d);
    operand.push_back({f.add(std::string(1, static_cast<char>('a' + d)), op.operands[0].shape[d],
                             reduced ? kind : Factors::Kind::kPass, reduced ? combiner : Combiner::kNone)});
    if (!reduced) result.push_back(operand.back());
  }
  f.operands = {operand};
  f.results = {result};
  return f;
}

Cost cost_reduce(const TypedOp& op) {
  Cost cost = pointwise_cost(op, 0);
  cost.flops = op.operands[0].count();
  return cost;
}

// ---- Derivatives.

Val spread(Val v, Val like, const Attrs& attrs) { return broadcast_along(v, like.shape(), axes_of(attrs)); }

/// 1 / ties at the elements that equal the extreme of their reduction, 0 at the others.
Val extreme_weights(Val x, Val extreme, const Attrs& attrs) {
  Val mask = convert(x.b->op("eq", {x, spread(extreme, x, attrs)}), x.dtype());
  return mask / spread(reduce_sum(mask, axes_of(attrs)), x, attrs);
}

/// Along the last dimension, of static size `n`: x[i] = product of the elements before i (`forward`) or after it.
/// Doubling: log2(n) shifted multiplications and no division, so that zeros and second derivatives are exact.
Val exclusive_products(Val x, int64_t n, bool forward) {
  FunctionBuilder& b = *x.b;
  Ints none(x.rank(), 0), low = none, high = none;
  auto shift = [&](Val v, int64_t by) {
    (forward ? low : high).back() = by;
    (forward ? high : low).back() = -by;
    return b.op("pad", {v, b.fill(v.dtype(), {}, 1)}, {{"low", low}, {"high", high}, {"interior", none}});
  };
  Val product = shift(x, 1);
  for (int64_t by = 1; by < n - 1; by *= 2) product = product * shift(product, by);
  return product;
}

/// For every element the product of the others of its reduction.
Val products_of_others(Val x, const Ints& axes) {
  Ints permutation = other_axes(x.rank(), axes);
  Shape kept = without_axes(x.shape(), axes), moved = kept;
  Dim n = 1;
  for (int64_t a : axes) {
    permutation.push_back(a);
    moved.push_back(x.shape()[a]);
    n = n * x.shape()[a];
  }
  kept.push_back(n);
  Val rows = reshape(transpose(x, permutation), kept), others;
  if (n.is_static()) {
    others = exclusive_products(rows, n.value(), true) * exclusive_products(rows, n.value(), false);
  } else {
    // A symbolic size: each element's own factor in an n by n square is replaced by 1.
    Shape square = kept;
    square.push_back(n);
    int64_t last = static_cast<int64_t>(square.size()) - 1;
    auto iota = [&](int64_t axis) {
      return x.b->op("iota", {}, {{"shape", square}, {"axis", axis}, {"dtype", DType::kI64}});
    };
    Val all = broadcast_along(rows, square, {last - 1});
    Val masked = select(x.b->op("eq", {iota(last - 1), iota(last)}), x.b->fill(x.dtype(), square, 1), all);
    others = x.b->op("reduce_prod", {masked}, {{"axes", Ints{last}}});
  }
  Ints back(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) back[permutation[i]] = static_cast<int64_t>(i);
  return transpose(reshape(others, moved), back);
}

/// d result / d operand of the reductions that multiply the operand's tangent by a weight per element.
Val weights_of(Combiner combiner, Val x, Val result, const Attrs& attrs) {
  return combiner == Combiner::kProd ? products_of_others(x, axes_of(attrs)) : extreme_weights(x, result, attrs);
}

// ---- Records.

struct ReduceRow {
  const char* name;
  Combiner combiner;
  const char* doc;
};

const ReduceRow kReductions[] = {
    {"reduce_sum", Combiner::kSum,
     "Sum over `axes`. The sum of no elements is 0. 8- and 16-bit floats are summed in f32 and rounded once; the order "
     "of summation is not fixed; integers wrap."},
    {"reduce_prod", Combiner::kProd,
     "Product over `axes`. The product of no elements is 1; integers wrap. The derivative divides nowhere, so it is "
     "exact where elements are zero."},
    {"reduce_max", Combiner::kMax,
     "Largest element over `axes`. NaN wins; of no elements it is -infinity, or the least integer. The derivative is "
     "shared equally among elements that tie."},
    {"reduce_min", Combiner::kMin,
     "Smallest element over `axes`. NaN wins; of no elements it is infinity, or the largest integer. The derivative is "
     "shared equally among elements that tie."},
    {"reduce_and", Combiner::kAnd, "Logical (bool) or bitwise (integer) and over `axes`; all ones of no elements."},
    {"reduce_or", Combiner::kOr, "Logical (bool) or bitwise (integer) or over `axes`; 0 of no elements."},
};

ir::Rule<std::vector<MaybeVal>(VjpContext&)> vjp_of(Combiner combiner) {
  if (combiner == Combiner::kAnd || combiner == Combiner::kOr)
    return ir::not_differentiable("the operand is bool or an integer");
  return [combiner](VjpContext& ctx) -> std::vector<MaybeVal> {
    Val ct = spread(ctx.ct(), ctx.operand(0), ctx.attrs());
    if (combiner == Combiner::kSum) return {ct};
    return {ct * weights_of(combiner, ctx.operand(0), ctx.result(), ctx.attrs())};
  };
}

ir::Rule<std::vector<MaybeVal>(JvpContext&)> jvp_of(Combiner combiner) {
  if (combiner == Combiner::kAnd || combiner == Combiner::kOr)
    return ir::not_differentiable("the operand is bool or an integer");
  if (combiner == Combiner::kSum) return jvp_linear;
  return [combiner](JvpContext& ctx) -> std::vector<MaybeVal> {
    Val w = weights_of(combiner, ctx.operand(0), ctx.result(), ctx.attrs());
    return {reduce_sum(ctx.tangent(0) * w, axes_of(ctx.attrs()))};
  };
}

Example reduce_example(DType dtype, Shape shape, Ints axes, ValueSpec values) {
  return {{operand(Type(dtype, std::move(shape)), values)}, {{"axes", std::move(axes)}}};
}

OpDef make_reduction(const ReduceRow& row) {
  Combiner combiner = row.combiner;
  bool logical = combiner == Combiner::kAnd || combiner == Combiner::kOr;
  bool extreme = combiner == Combiner::kMax || combiner == Combiner::kMin;
  DType dtype = logical ? DType::kBool : DType::kF32;
  ValueSpec values = extreme ? distinct() : logical ? between(0, 1) : between(-2, 2);
  Type bad = logical ? f32({2, 3}) : boolean({2, 3}), good(dtype, {2, 3});
  std::vector<Example> examples = {reduce_example(dtype, {2, 3, 4}, {1}, values),
                                   reduce_example(dtype, {2, 3}, {0, 1}, values),
                                   reduce_example(dtype, {2, 1, 2, 2, 1, 2, 2, 2}, {0, 2, 4, 6, 7}, values),
                                   reduce_example(dtype, {3, 0}, {1}, values)};
  if (logical) examples.push_back(reduce_example(DType::kI32, {4, 3}, {0}, between(-9, 9)));
  return {
      .name = row.name,
      .version = 1,
      .category = "reduction",
      .doc = row.doc,
      .operands = {{"x", "what is reduced"}},
      .attrs = {required("axes", AttrKind::kInts, "the axes that disappear; none gives the operand itself")},
      .results = {{"out", "the operand without `axes`"}},
      .constraints = {{"C1", logical ? "the operand is bool or an integer" : "the operand is not bool"},
                      {"C2", "the axes exist and each is named once"},
                      {"C3", "the axes are in ascending order"}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = [combiner](const InferContext& ctx) { return infer_reduce(ctx, combiner); },
      .reference = [combiner](const EvalContext& ctx) { return reference_reduce(ctx, combiner); },
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("a primitive: loops follow from its access"),
      .vjp = vjp_of(combiner),
      .jvp = jvp_of(combiner),
      .batch = batch_shifting({"axes"}),
      .factors =
          [combiner](const TypedOp& op) {
            return factors_over(op, axes_of(op.attrs), Factors::Kind::kReduce, combiner);
          },
      .access = [combiner](const TypedOp& op) { return access_reduce(op, combiner); },
      .linearity = ir::jointly(combiner, {0}),
      .lower = Lowering::kAccess,
      .cost = cost_reduce,
      .dtypes = logical ? DTypes::kAsWritten : DTypes::kNumeric,
      .examples = examples,
      .draw =
          [dtype, values](Rng& rng) {
            int rank = static_cast<int>(random_int(rng, 0, 3));
            Shape shape = random_shape(rng, rank);
            return reduce_example(dtype, shape, random_axes(rng, rank), values);
          },
      .rejects = {{"C1", {bad}, {{"axes", Ints{0}}}},
                  {"C2", {good}, {{"axes", Ints{2}}}},
                  {"C2", {good}, {{"axes", Ints{-1}}}},
                  {"C2", {good}, {{"axes", Ints{1, 1}}}},
                  {"C3", {good}, {{"axes", Ints{1, 0}}}}},
  };
}

// ---- argmax and argmin.

InferResult infer_arg(const InferContext& ctx) {
  if (ctx.operands[0].dtype == DType::kBool)
    return ctx.fail(Code::kDTypeMismatch, "C1", "the operand must be a number, got bool");
  int64_t axis = ctx.attrs.get_int("axis");
  NABLA_TRY(ctx.require_axis(axis, ctx.rank(0), "C3"));
  const Dim& extent = ctx.shape(0)[axis];
  const Shape& whole = ctx.attrs.get_shape("whole");
  NABLA_TRY(require_position_dtype(ctx, "C2", whole.size() == ctx.shape(0).size() ? whole[axis] : extent));
  if (!Dim::less_equal(1, extent).value_or(false))
    return ctx.fail(Code::kShapeMismatch, "C4", "axis {} has extent {}: no element to choose", axis, extent.str());
  NABLA_TRY(require_place(ctx, ctx.shape(0), "C5"));
  return Types{Type(ctx.attrs.get_dtype("dtype"), without_axes(ctx.shape(0), {axis}))};
}

/// Does `a` stand in the place of `b`, which came before it? The first NaN wins.
bool wins(double a, double b, bool max) {
  if (max ? a > b : a < b) return true;
  return std::isnan(a) && !std::isnan(b);
}
bool wins(int64_t a, int64_t b, bool max) { return max ? a > b : a < b; }

/// The first position along the axis: of a part, where it begins in the whole.
Dim first_position(const TypedOp& op) {
  return place_in(op.attrs, op.operands[0].shape).offset[op.attrs.get_int("axis")];
}

/// Positions of the extremes along the axis; `key` makes a number that grows with the element.
template <class Wide, class F>
Literal extreme_positions(const EvalContext& ctx, bool max, F key) {
  const Literal& x = ctx.operands[0];
  int64_t axis = ctx.attrs().get_int("axis");
  Literal out = zeros(ctx.op.results[0]);
  std::vector<Wide> best(out.size()), row(kRowBlock);
  std::vector<int64_t> position(out.size(), 0);
  int64_t first = first_position(ctx.op).value();
  Extents along(x.rank(), 0);
  along[axis] = 1;
  Nest<3> nest{x.shape(), {strides_of(x.shape()), kept_strides(x.shape(), {axis}, out.shape()), along}, {}};
  for_each_row(nest, [&](const auto& at, int64_t count, const auto& step) {
    for (int64_t i = 0; i < count; ++i) {
      if (i % kRowBlock == 0) read_row(x, at[0] + i * step[0], step[0], std::min(kRowBlock, count - i), row.data());
      int64_t index = at[2] + i * step[2], to = at[1] + i * step[1];
      Wide value = key(row[i % kRowBlock]);
      if (index > 0 && !wins(value, best[to], max)) continue;
      best[to] = value;
      position[to] = first + index;
    }
  });
  write_row(out, 0, 1, out.size(), position.data());
  return out;
}

Literals reference_arg(const EvalContext& ctx, bool max) {
  DType dtype = ctx.operands[0].dtype();
  if (is_float(dtype)) return {extreme_positions<double>(ctx, max, [](double v) { return v; })};
  // u64 comes as the bits of a signed number: turned round half-way it has the right order.
  int64_t turn = dtype == DType::kU64 ? INT64_MIN : 0;
  return {extreme_positions<int64_t>(ctx, max, [turn](int64_t v) { return v ^ turn; })};
}

// Two reductions: the extreme, then the least index that holds it. A NaN extreme equals nothing, so NaNs are found
// by themselves; where there is none, is_nan is false everywhere.
Fragment access_arg(const TypedOp& op, bool max) {
  Fragment f;
  int64_t axis = op.attrs.get_int("axis");
  Split s = split_axes(f, op.operands[0].shape, {axis});
  Expr x = load_operand(op, 0, kernel_ir::axes_as_indices(s.all));
  int extreme = f.reduce("extreme", x->dtype, s.kept, max ? Combiner::kMax : Combiner::kMin, s.reduced, x);
  Expr holds = kernel_ir::eq(x, f.at(extreme));
  if (is_float(x->dtype)) holds = kernel_ir::call("or", {holds, kernel_ir::call("is_nan", {x})});
  Dim begin = first_position(op);
  Expr position = kernel_ir::axis(s.reduced[0]);
  if (!begin.is(0)) position = position + kernel_ir::dim(begin);
  Expr at = kernel_ir::select(holds, position, kernel_ir::dim(begin + op.operands[0].shape[axis]));
  int first = f.reduce("first", DType::kI64, s.kept, Combiner::kMin, s.reduced, at);
  f.results = {round_definition(f, first, op.results[0].dtype, "out")};
  return f;
}

// The batch is in front, and each part has all of it.
std::vector<Val> batch_arg(BatchContext& ctx) {
  Attrs attrs = ctx.attrs();
  attrs.set("axis", attrs.get_int("axis") + 1);
  if (!attrs.get_shape("offset").empty()) {
    attrs.set("offset", prepend(0, attrs.get_shape("offset")));
    attrs.set("whole", prepend(ctx.size, attrs.get_shape("whole")));
  }
  return batch_with(ctx, std::move(attrs));
}

// Positions along the axis count; where a part lies along other dimensions does not.
Attrs localise_arg(const ir::Shard& shard) {
  const TypedOp& op = shard.op;
  auto axis = static_cast<size_t>(op.attrs.get_int("axis"));
  const Shape &all = op.operands[0].shape, part = shard.operand(0).shape;
  if (op.attrs.get_shape("offset").empty() && part[axis] == all[axis]) return op.attrs;
  Place of_axis = place_in(op.attrs, all), place{Shape(part.size(), Dim(0)), part};
  place.offset[axis] = of_axis.offset[axis] + shard.begins[shard.factors.operands[0][axis][0]];
  place.whole[axis] = of_axis.whole[axis];
  Attrs attrs = op.attrs;
  attrs.set("offset", place.offset);
  attrs.set("whole", place.whole);
  return attrs;
}

OpDef make_arg(const char* name, bool max) {
  auto example = [](Shape shape, int64_t axis, DType dtype) {
    return Example{{operand(f32(std::move(shape)), distinct())}, {{"axis", axis}, {"dtype", dtype}}};
  };
  auto part = [](Extents offset, Extents whole) {
    return Attrs{
        {"axis", int64_t{0}}, {"offset", ir::static_shape(offset)}, {"whole", ir::static_shape(whole)}};
  };
  return {
      .name = name,
      .version = 1,
      .category = "reduction",
      .doc = std::string("Index of the ") + (max ? "largest" : "smallest") +
             " element along `axis`; the first of those that tie. The first NaN wins, as in NumPy. Of a part of x, "
             "positions are those in the whole.",
      .operands = {{"x", "what is searched"}},
      .attrs = with_place({required("axis", AttrKind::kInt, "the axis that is searched and disappears"),
                           optional("dtype", "of the index: i32, i64, u32 or u64", DType::kI32)}),
      .results = {{"index", "positions along `axis`"}},
      .constraints = {{"C1", "the operand is not bool"},
                      {"C2", kPositionDType},
                      {"C3", "the axis exists"},
                      {"C4", "the axis has at least one element"},
                      place_constraint("C5")},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_arg,
      .reference = [max](const EvalContext& ctx) { return reference_arg(ctx, max); },
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("a primitive: loops follow from its access"),
      .vjp = ir::not_differentiable("the result is an integer"),
      .jvp = ir::not_differentiable("the result is an integer"),
      .batch = batch_arg,
      .factors =
          [](const TypedOp& op) {
            return factors_over(op, {op.attrs.get_int("axis")}, Factors::Kind::kReplicate, Combiner::kNone);
          },
      .rank_rule = max ? ir::RankRule::kArgmax : ir::RankRule::kArgmin,
      .localise = localise_arg,
      .access = [max](const TypedOp& op) { return access_arg(op, max); },
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = cost_reduce,
      .dtypes = DTypes::kNumeric,
      .examples = {example({2, 3}, 1, DType::kI32),
                   example({3, 2, 2}, 0, DType::kI64),
                   {{operand(f32({4, 5}), awkward())}, {{"axis", int64_t{1}}, {"dtype", DType::kI32}}},
                   {{operand(f32({3, 2}), distinct())}, part({1, 3}, {7, 5})}},
      .draw =
          [example](Rng& rng) {
            int rank = static_cast<int>(random_int(rng, 1, 3));
            Shape shape = random_shape(rng, rank);
            int64_t axis = random_int(rng, 0, rank - 1);
            if (shape[axis].is(0)) shape[axis] = 1;
            Example e = example(shape, axis, random_bool(rng) ? DType::kI32 : DType::kI64);
            if (random_bool(rng)) return e;
            Shape offset, whole;
            for (const Dim& d : shape) {
              offset.push_back(random_int(rng, 0, 9));
              whole.push_back(offset.back() + d + random_int(rng, 0, 9));
            }
            e.attrs.set("offset", offset);
            e.attrs.set("whole", whole);
            return e;
          },
      .rejects = {{"C1", {boolean({2, 3})}, {{"axis", int64_t{0}}}},
                  {"C2", {f32({2, 3})}, {{"axis", int64_t{0}}, {"dtype", DType::kF32}}},
                  {"C2", {f32({2, 3})}, {{"axis", int64_t{0}}, {"dtype", DType::kI8}}},
                  {"C2", {f32({(int64_t{1} << 32) + 1})}, {{"axis", int64_t{0}}, {"dtype", DType::kU32}}},
                  {"C3", {f32({2, 3})}, {{"axis", int64_t{2}}}},
                  {"C4", {f32({2, 0})}, {{"axis", int64_t{1}}}},
                  {"C5", {f32({3, 2})}, part({1}, {4})},
                  {"C5", {f32({3, 2})}, part({1, 3}, {7, 4})}},
  };
}

}  // namespace

std::vector<OpDef> reduce_ops() {
  std::vector<OpDef> out;
  for (const ReduceRow& row : kReductions) out.push_back(make_reduction(row));
  out.push_back(make_arg("argmax", true));
  out.push_back(make_arg("argmin", false));
  return out;
}

}  // namespace nabla::ops
