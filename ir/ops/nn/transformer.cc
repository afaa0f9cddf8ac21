// Composites of transformer models: rms_norm, rope, swiglu, logsumexp. Attention has a file of its own.
#include <cmath>
#include <limits>

#include "ir/ops/all_ops.h"
#include "ir/ops/composite.h"

namespace nabla::ops {
namespace {

// ---- rms_norm

InferResult infer_rms_norm(const InferContext& ctx) {
  NABLA_TRY(require_float(ctx, 0, "C1"));
  NABLA_TRY(ctx.require_same_dtype(0, 1, "C1"));
  if (ctx.rank(0) < 1) return ctx.fail(Code::kShapeMismatch, "C2", "x is a scalar");
  NABLA_TRY(require_rank(ctx, 1, 1, "C3"));
  NABLA_TRY(ctx.require_equal(ctx.shape(1)[0], ctx.shape(0).back(), "C3", "feature sizes"));
  return Types{ctx.operands[0], Type(ctx.operands[0].dtype, Shape(ctx.shape(0).begin(), ctx.shape(0).end() - 1))};
}

Literals reference_rms_norm(const EvalContext& ctx) {
  const Literal &x = ctx.operands[0], &gamma = ctx.operands[1];
  Literal out = zeros(ctx.op.results[0]), rstds = zeros(ctx.op.results[1]);
  int64_t size = x.shape().back();
  for (int64_t row = 0; row < rstds.size(); ++row) {
    double squares = 0;
    for (int64_t i = 0; i < size; ++i) squares += std::pow(x.get(row * size + i), 2);
    double rstd = 1 / std::sqrt(squares / static_cast<double>(size) + ctx.attrs().get_float("eps"));
    for (int64_t i = 0; i < size; ++i) out.set(row * size + i, x.get(row * size + i) * rstd * gamma.get(i));
    rstds.set(row, rstd);
  }
  return {out, rstds};
}

/// The number of features, in x's dtype, for every row.
Val features_per_row(Val x) { return reduce_sum(x.b->like(x, 1), {x.rank() - 1}); }

std::vector<Val> decompose_rms_norm(DecomposeContext& ctx) {
  DType dtype = ctx.operand(0).dtype();
  Val x = wide(ctx.operand(0)), gamma = wide(ctx.operand(1));
  int64_t last = x.rank() - 1;
  Val mean = reduce_sum(x * x, {last}) / features_per_row(x);
  Val rstd = apply("rsqrt", mean + ctx.attrs().get_float("eps"));
  Val y = x * broadcast_along(rstd, x.shape(), {last}) * broadcast_in_dim(gamma, x.shape(), {last});
  return {convert(y, dtype), convert(rstd, dtype)};
}

// With g = ct * gamma: dx = rstd g - x rstd^3 mean(g x), dgamma = the sum of ct x rstd over all rows.
std::vector<MaybeVal> vjp_rms_norm(VjpContext& ctx) {
  DType dtype = ctx.operand(0).dtype();
  Val x = wide(ctx.operand(0)), gamma = wide(ctx.operand(1)), rstd = wide(ctx.result(1));
  int64_t last = x.rank() - 1;
  auto rows = [&](Val v) { return broadcast_along(v, x.shape(), {last}); };
  Val cubed = rstd * rstd * rstd / features_per_row(x);
  MaybeVal dx, dgamma;
  if (ctx.cotangents[0]) {
    Val ct = wide(ctx.ct(0)), g = ct * broadcast_in_dim(gamma, x.shape(), {last});
    dx = g * rows(rstd) - x * rows(reduce_sum(g * x, {last}) * cubed);
    dgamma = reduce_sum(ct * x * rows(rstd), ir::iota_ints(static_cast<int>(last)));
  }
  if (ctx.cotangents[1]) dx = add_maybe(dx, -(x * rows(wide(ctx.ct(1)) * cubed)));
  std::vector<MaybeVal> out(2);
  if (ctx.active[0] && dx) out[0] = convert(*dx, dtype);
  if (ctx.active[1] && dgamma) out[1] = convert(*dgamma, dtype);
  return out;
}

OpDef rms_norm() {
  auto example = [](Shape shape, double eps) {
    Type row = f32({shape.back()});
    return Example{{operand(f32(std::move(shape))), operand(row)}, {{"eps", eps}}};
  };
  OpDef op = make_composite(
      "rms_norm",
      "x * rstd * gamma over the last axis, where rstd = 1 / sqrt(mean(x^2) + eps). The sum is taken in f32 for 8- and "
      "16-bit floats. rstd is a result for the way back. Zhang and Sennrich, \"Root mean square layer normalization\", "
      "2019.",
      infer_rms_norm, reference_rms_norm, decompose_rms_norm);
  op.operands = {{"x", "rows along the last axis"}, {"gamma", "scale per feature"}};
  op.attrs = {optional("eps", "added to the mean of squares", 1e-6)};
  op.results = {{"out", "shaped like x"}, {"rstd", "per row", true}};
  op.constraints = {{"C1", "the operands are floating and have one dtype"},
                    {"C2", "x has at least one dimension"},
                    {"C3", "gamma has one element per feature"}};
  op.vjp = vjp_rms_norm;
  op.factors = [](const TypedOp& t) { return factors_of_rows(t); };
  op.examples = {example({2, 5}, 1e-6), example({7}, 1e-3), example({2, 3, 4}, 0.1)};
  op.draw = [example](Rng& rng) {
    Shape shape = random_shape(rng, static_cast<int>(random_int(rng, 0, 2)), 40);
    shape.push_back(random_positive_dim(rng));
    return example(shape, 0.1);
  };
  op.rejects = {{"C1", {i32({2, 3}), i32({3})}, {}},
                {"C1", {f32({2, 3}), i32({3})}, {}},
                {"C2", {f32({}), f32({3})}, {}},
                {"C3", {f32({2, 3}), f32({2})}, {}},
                {"C3", {f32({2, 3}), f32({2, 3})}, {}}};
  return op;
}

// ---- rope

InferResult infer_rope(const InferContext& ctx) {
  NABLA_TRY(require_float(ctx, 0, "C1"));
  NABLA_TRY(require_integer(ctx, 1, "C1"));
  if (ctx.rank(0) < 2 || !Dim::mod(ctx.shape(0).back(), 2).is(0))
    return ctx.fail(Code::kShapeMismatch, "C2", "x is {}, expected [..., positions, an even number of features]",
                    ir::str(ctx.shape(0)));
  NABLA_TRY(require_rank(ctx, 1, 1, "C3"));
  NABLA_TRY(ctx.require_equal(ctx.shape(1)[0], ctx.shape(0)[ctx.rank(0) - 2], "C3", "numbers of positions"));
  if (!(ctx.attrs.get_float("base") > 0))
    return ctx.fail(Code::kBadAttribute, "C4", "base is {}, not above 0", ctx.attrs.get_float("base"));
  return Types{ctx.operands[0]};
}

Literals reference_rope(const EvalContext& ctx) {
  const Literal& x = ctx.operands[0];
  Literal out = zeros(ctx.op.results[0]);
  int64_t size = x.shape().back(), half = size / 2, length = ctx.operands[1].size();
  bool interleaved = ctx.attrs().get_bool("interleaved");
  for (int64_t row = 0; size > 0 && row < x.size() / size; ++row)
    for (int64_t i = 0; i < half; ++i) {
      double frequency = std::pow(ctx.attrs().get_float("base"), -2.0 * static_cast<double>(i) / double(size));
      double position = static_cast<double>(ctx.operands[1].get_i(row % length));
      double angle = position * ctx.attrs().get_float("scale") * frequency;
      int64_t a = row * size + (interleaved ? 2 * i : i), b = interleaved ? a + 1 : a + half;
      out.set(a, x.get(a) * std::cos(angle) - x.get(b) * std::sin(angle));
      out.set(b, x.get(b) * std::cos(angle) + x.get(a) * std::sin(angle));
    }
  return {out};
}

// The features as pairs along a dimension of extent 2: partners are then the same pair read backwards, which lanes
// along the other dimension do without shuffling.
std::vector<Val> decompose_rope(DecomposeContext& ctx) {
  Val x = wide(ctx.operand(0));
  FunctionBuilder& b = ctx.b;
  bool interleaved = ctx.attrs().get_bool("interleaved");
  Shape pairs = x.shape();
  Dim half = Dim::floordiv(pairs.back(), 2);
  pairs.pop_back();
  int64_t sequence = static_cast<int64_t>(pairs.size()) - 1;
  int64_t pair = sequence + (interleaved ? 2 : 1), feature = sequence + (interleaved ? 1 : 2);
  pairs.insert(pairs.end(), {interleaved ? half : Dim(2), interleaved ? Dim(2) : half});
  auto iota = [&](const Shape& shape, int64_t axis) {
    return b.op("iota", {}, {{"shape", shape}, {"axis", axis}, {"dtype", x.dtype()}});
  };
  Shape table = {pairs[sequence], half};
  const Dim& size = x.shape().back();
  const double per_feature = -2 * std::log(ctx.attrs().get_float("base"));
  auto over_size = [&](Val v) {
    if (size.is_static()) return v * (per_feature / static_cast<double>(std::max<int64_t>(1, size.value())));
    const Val count = b.op("element_count", {}, {{"shape", Shape{size}}, {"dtype", x.dtype()}});
    return v * per_feature / broadcast_in_dim(count, table, {});
  };
  Val exponent = over_size(iota(table, 1));
  Val position = convert(ctx.operand(1), x.dtype()) * ctx.attrs().get_float("scale");
  Val angle = broadcast_in_dim(position, table, {0}) * apply("exp", exponent);
  auto spread = [&](Val v) { return broadcast_in_dim(v, pairs, {sequence, feature}); };
  Val halves = reshape(x, pairs), partner = b.op("reverse", {halves}, {{"axes", Ints{pair}}});
  Val sign = iota(pairs, pair) * 2.0 + -1.0;  // -1 for the first of a pair, 1 for the second
  Val y = halves * spread(apply("cos", angle)) + partner * spread(apply("sin", angle)) * sign;
  return {convert(reshape(y, x.shape()), ctx.operand(0).dtype())};
}

Factors factors_rope(const TypedOp& op) {
  Factors f = factors_of_rows(op);
  f.operands[1] = {f.operands[0][op.operands[0].rank() - 2]};
  return f;
}

OpDef rope() {
  auto example = [](Shape shape, bool interleaved, double base) {
    Type positions = i32({shape[shape.size() - 2]});
    return Example{{operand(f32(std::move(shape))), operand(positions, between(0, 20))},
                   {{"base", base}, {"interleaved", interleaved}}};
  };
  OpDef op = make_composite(
      "rope",
      "Rotary position embedding: each pair of features is turned by the angle position * scale * base^(-2i / "
      "features), i being the pair's number. A pair is (i, i + features / 2), or with `interleaved` (2i, 2i + 1). Su "
      "et al., \"RoFormer\", 2021. Angles are computed in f32 for f32 and narrower types.",
      infer_rope, reference_rope, decompose_rope);
  op.operands = {{"x", "[..., positions, features]"}, {"positions", "integers, one per position"}};
  op.attrs = {optional("base", "of the angles' geometric progression", 10000.0),
              optional("scale", "times the position", 1.0),
              optional("interleaved", "whether partners are neighbours", false)};
  op.results = {{"out", "shaped like x"}};
  op.constraints = {{"C1", "x is floating, positions are integers"},
                    {"C2", "x has rank 2 or more and an even number of features"},
                    {"C3", "there is one position per row"},
                    {"C4", "base is above 0"}};
  op.vjp = [](VjpContext& ctx) -> std::vector<MaybeVal> {
    if (!ctx.active[0]) return {std::nullopt, std::nullopt};
    Attrs attrs = ctx.attrs();
    attrs.set("scale", -attrs.get_float("scale"));
    return {ctx.b.op("rope", {ctx.ct(), ctx.operand(1)}, attrs), std::nullopt};
  };
  op.jvp = jvp_linear_in({0});
  op.factors = factors_rope;
  op.linearity = ir::linear_in_each({0});
  op.examples = {example({3, 4}, false, 10000), example({2, 2, 5, 6}, true, 100), example({2, 3, 8}, false, 500)};
  op.draw = [example](Rng& rng) {
    Shape shape = random_shape(rng, static_cast<int>(random_int(rng, 0, 2)), 30);
    shape.push_back(random_dim(rng, 7));
    shape.push_back(2 * random_int(rng, 0, 4));
    return example(shape, random_bool(rng), 50);
  };
  op.rejects = {{"C1", {i32({3, 4}), i32({3})}, {}}, {"C1", {f32({3, 4}), f32({3})}, {}},
                {"C2", {f32({4}), i32({4})}, {}},    {"C2", {f32({3, 5}), i32({3})}, {}},
                {"C3", {f32({3, 4}), i32({4})}, {}}, {"C4", {f32({3, 4}), i32({3})}, {{"base", 0.0}}}};
  return op;
}

// ---- swiglu

OpDef swiglu() {
  auto example = [](Shape shape) { return Example{{operand(f32(shape), between(-4, 4)), operand(f32(shape))}, {}}; };
  OpDef op = make_composite(
      "swiglu",
      "silu(gate) * up, that is gate / (1 + exp(-gate)) * up. Shazeer, \"GLU variants improve transformer\", "
      "2020.",
      [](const InferContext& ctx) -> InferResult {
        NABLA_TRY(require_float(ctx, 0, "C1"));
        NABLA_TRY(ctx.require_same_type(0, 1, "C2"));
        return Types{ctx.operands[0]};
      },
      [](const EvalContext& ctx) -> Literals {
        Literal out = zeros(ctx.op.results[0]);
        for (int64_t i = 0; i < out.size(); ++i) {
          double gate = ctx.operands[0].get(i);
          out.set(i, gate / (1 + std::exp(-gate)) * ctx.operands[1].get(i));
        }
        return {out};
      },
      [](DecomposeContext& ctx) -> std::vector<Val> {
        Val gate = wide(ctx.operand(0)), up = wide(ctx.operand(1));
        return {convert(apply("silu", gate) * up, ctx.operand(0).dtype())};
      });
  op.operands = {{"gate", "what is gated"}, {"up", "of gate's type"}};
  op.results = {{"y", "of gate's type"}};
  op.constraints = {{"C1", "the operands are floating"}, {"C2", "the operands have one type"}};
  op.factors = [](const TypedOp& t) { return Factors::pointwise(t); };
  op.examples = {example({2, 3}), example({}), example({3, 0})};
  op.draw = [example](Rng& rng) { return example(random_shape(rng, static_cast<int>(random_int(rng, 0, 3)))); };
  op.rejects = {{"C1", {i32({2}), i32({2})}, {}}, {"C2", {f32({2}), f32({3})}, {}}};
  return op;
}

// ---- logsumexp

InferResult infer_logsumexp(const InferContext& ctx) {
  NABLA_TRY(require_float(ctx, 0, "C1"));
  int64_t axis = ctx.attrs.get_int("axis");
  NABLA_TRY(ctx.require_axis(axis, ctx.rank(0), "C2"));
  return Types{Type(ctx.operands[0].dtype, without_axes(ctx.shape(0), {axis}))};
}

Literals reference_logsumexp(const EvalContext& ctx) {
  const Literal& x = ctx.operands[0];
  Literal out = zeros(ctx.op.results[0]);
  int64_t row = 0;
  for_each_row(x.shape(), ctx.attrs().get_int("axis"), [&](int64_t first, int64_t stride, int64_t count) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < count; ++i) top = std::fmax(top, x.get(first + i * stride));
    if (!std::isfinite(top)) top = 0;
    for (int64_t i = 0; i < count; ++i) sum += std::exp(x.get(first + i * stride) - top);
    out.set(row++, top + std::log(sum));
  });
  return {out};
}

/// Terms of the sum, of which the largest is 1, and the sum. Both are in the accumulation dtype.
struct Terms {
  Val top, each, sum;
};
Terms terms_of(Val x, int64_t axis) {
  x = wide(x);
  Val top = apply("stop_gradient", reduce_max(x, {axis}));
  top = select(apply("is_finite", top), top, x.b->zeros_like(top));
  Val each = apply("exp", x - broadcast_along(top, x.shape(), {axis}));
  return {top, each, reduce_sum(each, {axis})};
}

/// Softmax of x along the axis, in the accumulation dtype. The op's result is not used: it is rounded, and so would the shares be.
Val shares(Val x, int64_t axis) {
  const Terms terms = terms_of(x, axis);
  return terms.each / broadcast_along(terms.sum, x.shape(), {axis});
}

std::vector<Val> decompose_logsumexp(DecomposeContext& ctx) {
  const Terms terms = terms_of(ctx.operand(0), ctx.attrs().get_int("axis"));
  return {convert(terms.top + apply("log", terms.sum), ctx.operand(0).dtype())};
}

OpDef logsumexp() {
  auto example = [](Shape shape, int64_t axis) {
    return Example{{operand(f32(std::move(shape)), between(-4, 4))}, {{"axis", axis}}};
  };
  OpDef op = make_composite(
      "logsumexp",
      "log of the sum of exp(x) along `axis`, which disappears. The largest element is subtracted first, so that "
      "nothing overflows; of no elements, or of -infinity alone, it is -infinity.",
      infer_logsumexp, reference_logsumexp, decompose_logsumexp);
  op.operands = {{"x", "exponents"}};
  op.attrs = {required("axis", AttrKind::kInt, "that is summed over")};
  op.results = {{"out", "x without the axis"}};
  op.constraints = {{"C1", "the operand is floating"}, {"C2", "the axis exists"}};
  op.vjp = [](VjpContext& ctx) -> std::vector<MaybeVal> {
    int64_t axis = ctx.attrs().get_int("axis");
    Val x = ctx.operand(0);
    return {convert(shares(x, axis) * broadcast_along(wide(ctx.ct()), x.shape(), {axis}), x.dtype())};
  };
  op.jvp = [](JvpContext& ctx) -> std::vector<MaybeVal> {
    int64_t axis = ctx.attrs().get_int("axis");
    Val x = ctx.operand(0);
    return {convert(reduce_sum(shares(x, axis) * wide(ctx.tangent(0)), {axis}), x.dtype())};
  };
  op.batch = batch_shifting({"axis"});
  op.factors = [](const TypedOp& t) {
    Factors f = Factors::pointwise({t.op, t.operands, t.attrs, t.operands});
    int64_t axis = t.attrs.get_int("axis");
    f.factors[axis].kind = Factors::Kind::kReplicate;
    f.results[0].erase(f.results[0].begin() + axis);
    return f;
  };
  op.examples = {example({2, 5}, 1), example({3, 4, 2}, 1), example({7}, 0)};
  op.draw = [example](Rng& rng) {
    int rank = static_cast<int>(random_int(rng, 1, 3));
    return example(random_shape(rng, rank), random_int(rng, 0, rank - 1));
  };
  op.rejects = {{"C1", {i32({2, 3})}, {{"axis", int64_t{1}}}},
                {"C2", {f32({2, 3})}, {{"axis", int64_t{2}}}},
                {"C2", {f32({})}, {{"axis", int64_t{0}}}}};
  return op;
}

}  // namespace

std::vector<OpDef> transformer_ops() { return {rms_norm(), rope(), swiglu(), logsumexp()}; }

}  // namespace nabla::ops
