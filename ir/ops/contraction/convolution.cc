// Convolution and its two gradients. The three are bilinear and each is the derivative of the others, so that every
// order of differentiation stays within them.
#include <algorithm>
#include <type_traits>

#include "ir/kernel_ir/rows.h"
#include "ir/ops/all_ops.h"
#include "ir/ops/contraction/window_geometry.h"

namespace nabla::ops {
namespace {

using kernel_ir::Combiner;
using kernel_ir::Expr;
using kernel_ir::Fragment;

/// Which of the three tensors of a convolution the op computes.
enum class Part { kOutput, kInput, kFilter };

/// The tensors of a convolution: input [N, space..., C], filter [taps..., C/groups, O], output [N, space'..., O].
struct Geometry {
  Shape input, filter, output;
  Windows windows;  ///< per spatial dimension
  int64_t groups = 1;
  int spatial() const { return static_cast<int>(windows.size()); }
  Dim channels() const { return filter[filter.size() - 2]; }             ///< of one group
  Dim features() const { return Dim::floordiv(output.back(), groups); }  ///< of one group
};

Shape middle(const Shape& s, size_t from_front, size_t from_back) {
  return Shape(s.begin() + from_front, s.end() - from_back);
}
Shape concat(Shape a, const Shape& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Geometry geometry_of(const TypedOp& op, Part part) {
  Geometry g;
  g.groups = op.attrs.get_int("groups");
  g.input = part == Part::kInput ? op.results[0].shape : op.operands[0].shape;
  g.filter = part == Part::kFilter ? op.results[0].shape : op.operands[1].shape;
  g.output = part == Part::kOutput ? op.results[0].shape : op.operands[part == Part::kInput ? 0 : 1].shape;
  g.windows = windows_from(op.attrs, middle(g.filter, 0, 2));
  return g;
}

// ---- Types.

/// C1 dtype, C2 ranks, C3 attributes.
Status check_convolution(const InferContext& ctx) {
  NABLA_TRY(ctx.require_same_dtype(0, 1, "C1"));
  if (ctx.operands[0].dtype == DType::kBool)
    return ctx.fail(Code::kDTypeMismatch, "C1", "operands are bool; convert them to a number first");
  int rank = ctx.rank(0);
  if (rank < 3 || rank > 5)
    return ctx.fail(Code::kShapeMismatch, "C2",
                    "{} has {} dimensions, expected batch, 1 to 3 spatial ones and channels", ir::str(ctx.shape(0)),
                    rank);
  NABLA_TRY(require_rank(ctx, 1, rank, "C2"));
  NABLA_TRY(check_windows(ctx, rank - 2, "C3"));
  if (ctx.attrs.get_int("groups") < 1)
    return ctx.fail(Code::kBadAttribute, "C3", "groups is {}, below 1", ctx.attrs.get_int("groups"));
  return Ok{};
}

/// `size` per group, or C4 where the groups do not divide it.
Result<Dim> per_group(const InferContext& ctx, const Dim& size, std::string_view what) {
  int64_t groups = ctx.attrs.get_int("groups");
  if (groups == 1) return size;
  Dim part = Dim::floordiv(size, groups);
  NABLA_TRY(ctx.require_equal(size, part * groups, "C4", fmt::format("{} and a multiple of groups", what)));
  return part;
}

/// C5: the gradient's operand has the sizes that the forward convolution gives.
Status require_outputs(const InferContext& ctx, const Shape& expected, const Shape& ct) {
  for (size_t d = 0; d < expected.size(); ++d)
    NABLA_TRY(
        ctx.require_equal(ct[d + 1], expected[d], "C5", fmt::format("ct and convolved sizes in dimension {}", d + 1)));
  return Ok{};
}

InferResult infer_convolution(const InferContext& ctx) {
  NABLA_TRY(check_convolution(ctx));
  const Shape &x = ctx.shape(0), &w = ctx.shape(1);
  Dim channels = NABLA_TRY(per_group(ctx, x.back(), "input channels"));
  NABLA_TRY(per_group(ctx, w.back(), "output channels"));
  NABLA_TRY(ctx.require_equal(w[w.size() - 2], channels, "C4", "filter channels and input channels per group"));
  Shape out = concat({x[0]}, output_extents(ctx.attrs, middle(x, 1, 1), middle(w, 0, 2)));
  return Types{Type(ctx.operands[0].dtype, concat(out, {w.back()}))};
}

Status require_sizes(const InferContext& ctx, const Shape& sizes, const char* name) {
  if (static_cast<int>(sizes.size()) != ctx.rank(0) - 2)
    return ctx.fail(Code::kBadAttribute, "C3", "{} has {} entries, expected {}", name, sizes.size(), ctx.rank(0) - 2);
  for (const Dim& d : sizes)
    if (d.bounds().min < 0) return ctx.fail(Code::kBadAttribute, "C3", "{} is {}, below 0", name, ir::str(sizes));
  return Ok{};
}

InferResult infer_input_grad(const InferContext& ctx) {
  NABLA_TRY(check_convolution(ctx));
  const Shape &ct = ctx.shape(0), &w = ctx.shape(1), &space = ctx.attrs.get_shape("input_spatial");
  NABLA_TRY(require_sizes(ctx, space, "input_spatial"));
  NABLA_TRY(per_group(ctx, w.back(), "output channels"));
  NABLA_TRY(ctx.require_equal(ct.back(), w.back(), "C4", "channels of ct and output channels of the filter"));
  NABLA_TRY(require_outputs(ctx, output_extents(ctx.attrs, space, middle(w, 0, 2)), ct));
  Dim channels = w[w.size() - 2] * ctx.attrs.get_int("groups");
  return Types{Type(ctx.operands[0].dtype, concat(concat({ct[0]}, space), {channels}))};
}

InferResult infer_filter_grad(const InferContext& ctx) {
  NABLA_TRY(check_convolution(ctx));
  const Shape &x = ctx.shape(0), &ct = ctx.shape(1), &taps = ctx.attrs.get_shape("filter_spatial");
  NABLA_TRY(require_sizes(ctx, taps, "filter_spatial"));
  Dim channels = NABLA_TRY(per_group(ctx, x.back(), "input channels"));
  NABLA_TRY(per_group(ctx, ct.back(), "channels of ct"));
  NABLA_TRY(ctx.require_equal(x[0], ct[0], "C4", "batch sizes"));
  NABLA_TRY(require_outputs(ctx, output_extents(ctx.attrs, middle(x, 1, 1), taps), ct));
  return Types{Type(ctx.operands[0].dtype, concat(taps, {channels, ct.back()}))};
}

// ---- Reference.

/// The walks over images and places of the outputs, one per tap, in the order in which the products of an element of
/// the result are added: by outputs, as far as the input's gradient goes, where a later tap belongs to an earlier
/// output.
std::vector<std::pair<int64_t, Nest<2>>> walks_of(const Geometry& g, const Extents& input, const Extents& output,
                                                  Part part) {
  Extents space(input.begin() + 1, input.end() - 1), places(output.begin() + 1, output.end() - 1);
  std::vector<std::pair<int64_t, Nest<2>>> walks;
  for_each_tap(g.windows, space, places, [&](int64_t tap, Nest<2> nest) {
    nest.shape.insert(nest.shape.begin(), input[0]);
    nest.strides[0].insert(nest.strides[0].begin(), count_of(places));
    nest.strides[1].insert(nest.strides[1].begin(), count_of(space));
    walks.emplace_back(tap, std::move(nest));
  });
  if (part == Part::kInput) std::reverse(walks.begin(), walks.end());
  return walks;
}

/// The products of one place, one tap and one group: x [channels], w [channels, features] of which rows are `stride`
/// apart, y [features].
template <Part part, class Wide>
void add_products(Wide* x, Wide* w, Wide* y, int64_t channels, int64_t features, int64_t stride) {
  for (int64_t c = 0; c < channels; ++c, w += stride) {
    Wide value = x[c];
    for (int64_t f = 0; f < features; ++f) {
      if constexpr (part == Part::kOutput) y[f] += value * w[f];
      if constexpr (part == Part::kFilter) w[f] += value * y[f];
      if constexpr (part == Part::kInput) value += w[f] * y[f];
    }
    if constexpr (part == Part::kInput) x[c] = value;
  }
}

/// Wide is double, or uint64_t, which wraps.
template <Part part, class Wide>
Literal convolved(const EvalContext& ctx) {
  using Row = std::conditional_t<std::is_same_v<Wide, double>, double, int64_t>;
  Geometry g = geometry_of(ctx.op, part);
  Extents input = Type(DType::kF32, g.input).extents(), filter = Type(DType::kF32, g.filter).extents();
  Extents output = Type(DType::kF32, g.output).extents();
  std::vector<Wide> x(count_of(input)), w(count_of(filter)), y(count_of(output));
  std::vector<std::vector<Wide>*> tensors = {&x, &w, &y};
  std::vector<Wide>* result = part == Part::kOutput ? &y : part == Part::kInput ? &x : &w;
  std::erase(tensors, result);
  if (part == Part::kInput) std::swap(tensors[0], tensors[1]);  // ct, then the filter
  for (size_t k = 0; k < 2; ++k)
    read_row(ctx.operands[k], 0, 1, ctx.operands[k].size(), reinterpret_cast<Row*>(tensors[k]->data()));
  int64_t channels = filter[filter.size() - 2], all = output.back(), features = all / g.groups;
  for (auto& [tap, nest] : walks_of(g, input, output, part)) {
    Wide* weights = w.data() + tap * channels * all;
    for_each_row(nest, [&](const auto& at, int64_t count, const auto& step) {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t group = 0; group < g.groups; ++group)
          add_products<part>(x.data() + (at[1] + i * step[1]) * input.back() + group * channels,
                             weights + group * features, y.data() + (at[0] + i * step[0]) * all + group * features,
                             channels, features, all);
    });
  }
  Literal out = zeros(ctx.op.results[0]);
  write_row(out, 0, 1, out.size(), reinterpret_cast<const Row*>(result->data()));
  return out;
}

template <Part part>
Literals reference_part(const EvalContext& ctx) {
  return {is_float(ctx.operands[0].dtype()) ? convolved<part, double>(ctx) : convolved<part, uint64_t>(ctx)};
}

// ---- Access.

Fragment finish(Fragment f, const TypedOp& op, std::vector<int> own, std::vector<int> over, Expr product) {
  int sum = f.reduce("sum", product->dtype, std::move(own), Combiner::kSum, std::move(over), product);
  f.results = {round_definition(f, sum, op.results[0].dtype, "out")};
  return f;
}

/// Channel `c` of the group that `feature` belongs to, counted over all groups.
Expr channel_of(const Geometry& g, Expr feature, Expr c) {
  if (g.groups == 1) return c;
  return kernel_ir::call("floordiv", {feature, kernel_ir::dim(g.features())}) * kernel_ir::dim(g.channels()) + c;
}

// Padding adds nothing to a sum, whatever it is multiplied by: both factors are 0 there, because 0 times infinity is NaN.
Expr wide_under(const TypedOp& op, int k, std::vector<Expr> indices, const Expr& guard) {
  Expr zero = kernel_ir::constant_int(op.operands[k].dtype, 0);
  return kernel_ir::convert(accumulation_type(op.operands[k].dtype), load_under(op, k, std::move(indices), guard, zero));
}

// Output and filter gradient read the input at the same places; they differ in what is summed over.
Fragment access_forward(const TypedOp& op, Part part) {
  Fragment f;
  Geometry g = geometry_of(op, part);
  int n = f.add_axis("n", g.input[0]);
  std::vector<int> places = f.add_axes("o", middle(g.output, 1, 1)), taps = f.add_axes("k", middle(g.filter, 0, 2));
  int c = f.add_axis("c", g.channels()), feature = f.add_axis("f", g.output.back());
  std::vector<Expr> input = {kernel_ir::axis(n)};
  Expr guard;
  for (int d = 0; d < g.spatial(); ++d) {
    Tap tap = forward_tap(kernel_ir::axis(places[d]), kernel_ir::axis(taps[d]), g.windows[d], g.input[d + 1],
                          g.output[d + 1]);
    input.push_back(tap.index);
    guard = both_guards(guard, tap.guard);
  }
  input.push_back(channel_of(g, kernel_ir::axis(feature), kernel_ir::axis(c)));
  Expr x = wide_under(op, 0, input, guard);
  std::vector<int> output = {n}, filter = taps;
  output.insert(output.end(), places.begin(), places.end());
  output.push_back(feature);
  filter.insert(filter.end(), {c, feature});
  if (part == Part::kFilter) {
    std::vector<int> over(output.begin(), output.end() - 1);
    return finish(f, op, filter, over, x * wide_under(op, 1, kernel_ir::axes_as_indices(output), guard));
  }
  std::vector<int> over(filter.begin(), filter.end() - 1);
  return finish(f, op, output, over, x * wide_under(op, 1, kernel_ir::axes_as_indices(filter), guard));
}

// Every input element gathers from the outputs that read it: no scatter, so that the loop is parallel.
Fragment access_input_grad(const TypedOp& op) {
  Fragment f;
  Geometry g = geometry_of(op, Part::kInput);
  std::vector<int> own = {f.add_axis("n", g.input[0])};
  for (int i : f.add_axes("i", middle(g.input, 1, 1))) own.push_back(i);
  own.push_back(f.add_axis("c", g.input.back()));
  std::vector<int> over = f.add_axes("k", middle(g.filter, 0, 2));
  over.push_back(f.add_axis("f", g.features()));
  std::vector<Expr> output = {kernel_ir::axis(own[0])}, filter;
  Expr guard;
  for (int d = 0; d < g.spatial(); ++d) {
    Tap tap = backward_tap(kernel_ir::axis(own[d + 1]), kernel_ir::axis(over[d]), g.windows[d], g.input[d + 1],
                           g.output[d + 1]);
    output.push_back(tap.index);
    filter.push_back(kernel_ir::axis(over[d]));
    guard = both_guards(guard, tap.guard);
  }
  Expr c = kernel_ir::axis(own.back()), feature = kernel_ir::axis(over.back());
  if (g.groups > 1) {
    Expr channels = kernel_ir::dim(g.channels());
    feature = kernel_ir::call("floordiv", {c, channels}) * kernel_ir::dim(g.features()) + feature;
    c = kernel_ir::call("mod", {c, channels});
  }
  output.push_back(feature);
  filter.insert(filter.end(), {c, feature});
  return finish(f, op, own, over, wide_under(op, 0, output, guard) * wide_under(op, 1, filter, guard));
}

// ---- Derivatives.

Attrs common_attrs(const Attrs& attrs) {
  Attrs out = attrs;
  out.erase("input_spatial");
  out.erase("filter_spatial");
  return out;
}
Val output_of(Val input, Val filter, const Attrs& attrs) {
  return input.b->op("convolution", {input, filter}, common_attrs(attrs));
}
Val input_grad(Val ct, Val filter, const Shape& input, const Attrs& attrs) {
  Attrs out = common_attrs(attrs);
  out.set("input_spatial", middle(input, 1, 1));
  return ct.b->op("conv_input_grad", {ct, filter}, out);
}
Val filter_grad(Val input, Val ct, const Shape& filter, const Attrs& attrs) {
  Attrs out = common_attrs(attrs);
  out.set("filter_spatial", middle(filter, 0, 2));
  return ct.b->op("conv_filter_grad", {input, ct}, out);
}

std::vector<MaybeVal> vjp_part(VjpContext& ctx, Part part) {
  Val a = ctx.operand(0), b = ctx.operand(1), ct = ctx.ct();
  std::vector<MaybeVal> out(2);
  if (ctx.active[0])
    out[0] = part == Part::kInput
                 ? output_of(ct, b, ctx.attrs())
                 : input_grad(part == Part::kOutput ? ct : b, part == Part::kOutput ? b : ct, a.shape(), ctx.attrs());
  if (ctx.active[1])
    out[1] = part == Part::kFilter
                 ? output_of(a, ct, ctx.attrs())
                 : filter_grad(part == Part::kOutput ? a : ct, part == Part::kOutput ? ct : a, b.shape(), ctx.attrs());
  return out;
}

// ---- Batching.

Val move_axis(Val v, int64_t from, int64_t to) {
  Ints permutation;
  for (int64_t i = 0; i < v.rank(); ++i)
    if (i != from) permutation.push_back(i);
  permutation.insert(permutation.begin() + to, from);
  return transpose(v, permutation);
}
/// Dimension 0 merged into dimension `into` of the rest, as the major part.
Val merge(Val v, int64_t into) {
  Val moved = move_axis(v, 0, into);
  Shape shape = moved.shape();
  shape[into] = shape[into] * shape[into + 1];
  shape.erase(shape.begin() + into + 1);
  return reshape(moved, shape);
}
/// The inverse: dimension `from` is `size` times something; `size` becomes dimension 0.
Val unmerge(Val v, int64_t from, const Dim& size, const Dim& rest) {
  Shape shape = v.shape();
  shape[from] = rest;
  shape.insert(shape.begin() + from, size);
  return move_axis(reshape(v, shape), from, 0);
}

/// Without a batched second operand the batch joins dimension 0; otherwise it becomes a group of channels, whose
/// number must then be known.
std::vector<Val> batch_part(BatchContext& ctx, Part part) {
  Attrs attrs = ctx.attrs();
  const Type& result = ctx.op.results[0];
  if (!ctx.batched[1] && part != Part::kFilter) {
    Val out = ctx.b.op(ctx.op.op.name, {merge(ctx.operands[0], 0), ctx.operands[1]}, attrs);
    return {unmerge(out, 0, ctx.size, result.shape[0])};
  }
  NABLA_CHECK(ctx.size.is_static(), "{}: a batched filter needs a static batch, got {}", ctx.op.op.name,
              ctx.size.str());
  attrs.set("groups", attrs.get_int("groups") * ctx.size.value());
  std::vector<Val> operands;
  for (int i = 0; i < 2; ++i) operands.push_back(merge(ctx.batched_operand(i), ctx.op.operands[i].rank() - 1));
  Val out = ctx.b.op(ctx.op.op.name, operands, attrs);
  return {unmerge(out, result.rank() - 1, ctx.size, result.shape.back())};
}

// ---- Factors and cost.

Factors factors_part(const TypedOp& op, Part part) {
  using Kind = Factors::Kind;
  Factors f;
  Geometry g = geometry_of(op, part);
  auto summed = [&](Part absent) { return absent == part; };
  auto add = [&](const char* name, const Dim& size, bool reduced) {
    return f.add(name, size, reduced ? Kind::kReduce : Kind::kPass, reduced ? Combiner::kSum : Combiner::kNone);
  };
  int n = add("n", g.input[0], summed(Part::kFilter));
  int c = add("c", g.channels(), summed(Part::kOutput)), o = add("o", g.features(), summed(Part::kInput));
  std::vector<int> channels = {c}, features = {o};
  if (g.groups > 1) {
    // The attribute counts the groups, so they stay whole, and so does what lies inside of each.
    int group = f.add("g", g.groups, Kind::kReplicate);
    for (int inner : {c, o}) f.factors[inner].kind = Kind::kReplicate, f.factors[inner].combiner = Combiner::kNone;
    channels = {group, c};
    features = {group, o};
  }
  Factors::Tensor input = {{n}}, output = {{n}}, filter;
  for (int d = 0; d < g.spatial(); ++d) {
    std::string id = std::to_string(d);
    input.push_back({f.add("x" + id, g.input[d + 1], Kind::kReplicate)});
    output.push_back({f.add("y" + id, g.output[d + 1], Kind::kReplicate)});
    filter.push_back({f.add("k" + id, g.filter[d], Kind::kReplicate)});
  }
  input.push_back(channels);
  output.push_back(features);
  filter.push_back({c});
  filter.push_back(features);
  f.operands = part == Part::kOutput  ? std::vector{input, filter}
               : part == Part::kInput ? std::vector{output, filter}
                                      : std::vector{input, output};
  f.results = {part == Part::kOutput ? output : part == Part::kInput ? input : filter};
  return f;
}

Cost cost_part(const TypedOp& op, Part part) {
  Geometry g = geometry_of(op, part);
  Cost cost = pointwise_cost(op, 0);
  cost.flops = Type(DType::kF32, g.output).count() * Type(DType::kF32, middle(g.filter, 0, 1)).count() * 2;
  return cost;
}

// ---- Examples.

Attrs conv_attrs(Ints strides, Ints low, Ints high, Ints dilation, int64_t groups) {
  return {{"strides", std::move(strides)},
          {"padding_low", std::move(low)},
          {"padding_high", std::move(high)},
          {"dilation", std::move(dilation)},
          {"groups", groups}};
}

/// The example of one part from the input and filter of the forward convolution.
Example conv_example(Part part, Shape input, Shape filter, Attrs attrs) {
  Shape output = {input[0]};
  Windows windows = windows_from(attrs, middle(filter, 0, 2));
  for (size_t d = 0; d < windows.size(); ++d) output.push_back(output_extent(input[d + 1], windows[d]));
  output.push_back(filter.back());
  if (part == Part::kOutput) return {{operand(f32(input)), operand(f32(filter))}, attrs};
  if (part == Part::kInput) {
    attrs.set("input_spatial", middle(input, 1, 1));
    return {{operand(f32(output)), operand(f32(filter))}, attrs};
  }
  attrs.set("filter_spatial", middle(filter, 0, 2));
  return {{operand(f32(input)), operand(f32(output))}, attrs};
}

std::vector<Example> conv_examples(Part part) {
  return {
      conv_example(part, {2, 5, 4, 2}, {3, 3, 2, 3}, conv_attrs({1, 1}, {1, 1}, {1, 1}, {1, 1}, 1)),
      conv_example(part, {1, 6, 5, 1}, {2, 3, 1, 2}, conv_attrs({2, 2}, {0, 1}, {1, 0}, {1, 1}, 1)),
      conv_example(part, {2, 7, 4}, {2, 2, 6}, conv_attrs({2}, {0}, {0}, {2}, 2)),
      conv_example(part, {1, 2, 3, 2, 1}, {2, 1, 2, 1, 1}, conv_attrs({1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1}, 1))};
}

Example draw_conv(Part part, Rng& rng) {
  int spatial = static_cast<int>(random_int(rng, 1, 2));
  int64_t groups = random_int(rng, 1, 2);
  int64_t channels = random_positive_dim(rng, 3);
  Shape input = {random_dim(rng, 3)}, filter;
  Ints strides, low, high, dilation;
  for (int d = 0; d < spatial; ++d) {
    input.push_back(random_dim(rng, spatial == 1 ? 17 : 7));
    filter.push_back(random_int(rng, 1, 3));
    strides.push_back(random_int(rng, 1, 3));
    low.push_back(random_int(rng, 0, 2));
    high.push_back(random_int(rng, 0, 2));
    dilation.push_back(random_int(rng, 1, 2));
  }
  input.push_back(channels * groups);
  filter.push_back(channels);
  filter.push_back(random_positive_dim(rng, 3) * groups);
  return conv_example(part, input, filter, conv_attrs(strides, low, high, dilation, groups));
}

/// What is wrong with the forward convolution is, with the same ids, wrong with both gradients.
std::vector<Reject> conv_rejects(Part part) {
  const char* size_attr = part == Part::kInput ? "input_spatial" : "filter_spatial";
  auto make = [&](const char* id, Shape a, Shape b, Attrs attrs, DType second) {
    if (part != Part::kOutput && !attrs.find(size_attr))
      attrs.set(size_attr, part == Part::kInput ? Shape{5} : Shape{2});
    return Reject{id, {f32(std::move(a)), Type(second, std::move(b))}, std::move(attrs)};
  };
  DType f = DType::kF32;
  Shape a = part == Part::kInput ? Shape{2, 4, 6} : Shape{2, 5, 4};
  Shape b = part == Part::kFilter ? Shape{2, 4, 6} : Shape{2, 2, 6};
  Attrs good = conv_attrs({1}, {0}, {0}, {1}, 2);
  std::vector<Reject> out = {make("C1", a, b, good, DType::kI32),
                             make("C2", {2, 4}, {2, 4}, good, f),
                             make("C2", a, {2, 2}, good, f),
                             make("C3", a, b, conv_attrs({1, 1}, {0}, {0}, {1}, 2), f),
                             make("C3", a, b, conv_attrs({0}, {0}, {0}, {1}, 2), f),
                             make("C3", a, b, conv_attrs({1}, {-1}, {0}, {1}, 2), f),
                             make("C3", a, b, conv_attrs({1}, {0}, {0}, {1}, 0), f),
                             make("C4", a, b, conv_attrs({1}, {0}, {0}, {1}, 4), f)};
  Reject bools = make("C1", a, b, good, DType::kBool);
  bools.operands[0].dtype = DType::kBool;
  out.push_back(bools);
  if (part == Part::kOutput) out.push_back(make("C4", a, {2, 3, 6}, good, f));
  if (part == Part::kInput) out.push_back(make("C4", {2, 4, 5}, b, good, f));
  if (part == Part::kFilter) out.push_back(make("C4", {3, 5, 4}, b, good, f));
  if (part == Part::kOutput) return out;
  Attrs rank = good, size = good;
  rank.set(size_attr, Shape{5, 5});
  size.set(size_attr, Shape{3});
  out.push_back(make("C3", a, b, rank, f));
  out.push_back(make("C5", a, b, size, f));
  return out;
}

// ---- Records.

const char* const kConvDoc =
    "\nLayouts: input [N, space..., C], filter [taps..., C/groups, O], output [N, space'..., O], with 1 to 3 spatial "
    "dimensions. Output position o reads input positions o*stride + k*dilation - padding_low for the taps k; padding "
    "reads as 0. Group g joins input channels g*C/groups... with output channels g*O/groups... 8- and 16-bit floats "
    "are "
    "summed in f32 and rounded once; integers wrap. A batch over the filter needs a static batch size.";

OpDef make_part(const char* name, const char* doc, Part part, std::vector<OperandDef> operands, ResultDef result) {
  std::vector<AttrDef> attrs = {
      required("strides", AttrKind::kInts, "per spatial dimension"),
      required("padding_low", AttrKind::kInts, "before the input, per spatial dimension"),
      required("padding_high", AttrKind::kInts, "after the input, per spatial dimension"),
      required("dilation", AttrKind::kInts, "distance of neighbouring taps, per spatial dimension"),
      optional("groups", "into how many independent parts the channels fall", int64_t{1})};
  std::vector<ir::Constraint> constraints = {
      {"C1", "the operands have one dtype, and it is not bool"},
      {"C2", "both operands have rank 3 to 5, the same"},
      {"C3",
       "every list has one entry per spatial dimension; strides, dilation and groups are at least 1, padding and "
       "sizes at least 0"},
      {"C4", "batch and channel sizes agree, and the groups divide the channels"}};
  if (part == Part::kInput) attrs.push_back(required("input_spatial", AttrKind::kShape, "the input's spatial sizes"));
  if (part == Part::kFilter)
    attrs.push_back(required("filter_spatial", AttrKind::kShape, "the filter's spatial sizes"));
  if (part != Part::kOutput) constraints.push_back({"C5", "ct has the spatial sizes that the convolution gives"});
  return {
      .name = name,
      .version = 1,
      .category = "contraction",
      .doc = std::string(doc) + kConvDoc,
      .operands = std::move(operands),
      .attrs = std::move(attrs),
      .results = {std::move(result)},
      .constraints = std::move(constraints),
      .traits = {},
      .stages = ir::kAllStages,
      .infer = part == Part::kOutput  ? infer_convolution
               : part == Part::kInput ? infer_input_grad
                                      : infer_filter_grad,
      .reference = part == Part::kOutput  ? reference_part<Part::kOutput>
                   : part == Part::kInput ? reference_part<Part::kInput>
                                          : reference_part<Part::kFilter>,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("a primitive: loops follow from its access"),
      .vjp = [part](VjpContext& ctx) { return vjp_part(ctx, part); },
      .jvp = jvp_linear_in_each({0, 1}),
      .batch = [part](BatchContext& ctx) { return batch_part(ctx, part); },
      .factors = [part](const TypedOp& op) { return factors_part(op, part); },
      .rank_rule = part == Part::kOutput  ? ir::RankRule::kConvolution
                   : part == Part::kInput ? ir::RankRule::kInputGrad
                                          : ir::RankRule::kFilterGrad,
      .access =
          [part](const TypedOp& op) { return part == Part::kInput ? access_input_grad(op) : access_forward(op, part); },
      .linearity = ir::linear_in_each({0, 1}),
      .lower = Lowering::kConvolution,
      .cost = [part](const TypedOp& op) { return cost_part(op, part); },
      .dtypes = DTypes::kNumeric,
      .examples = conv_examples(part),
      .draw = [part](Rng& rng) { return draw_conv(part, rng); },
      .rejects = conv_rejects(part)};
}

}  // namespace

std::vector<OpDef> convolution_ops() {
  return {
      make_part("convolution", "Slides a filter over the input: sums of products of taps and channels.", Part::kOutput,
                {{"input", "[N, space..., C]"}, {"filter", "[taps..., C/groups, O]"}}, {"out", "[N, space'..., O]"}),
      make_part("conv_input_grad", "The gradient of a convolution with respect to its input.", Part::kInput,
                {{"ct", "cotangent of the output"}, {"filter", "[taps..., C/groups, O]"}},
                {"dinput", "[N, input_spatial..., C]"}),
      make_part("conv_filter_grad", "The gradient of a convolution with respect to its filter.", Part::kFilter,
                {{"input", "[N, space..., C]"}, {"ct", "cotangent of the output"}},
                {"dfilter", "[filter_spatial..., C/groups, O]"})};
}

}  // namespace nabla::ops
