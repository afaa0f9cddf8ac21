// The discrete Fourier transform of sequences of complex numbers, given as pairs of real tensors.
#include "ir/ops/all_ops.h"
#include "ir/ops/procedure.h"

namespace nabla::ops {
namespace {

constexpr int64_t kLongest = int64_t{1} << 24;

InferResult infer_fft(const InferContext& ctx) {
  NABLA_TRY(require_float(ctx, 0, "C1"));
  NABLA_TRY(ctx.require_same_type(0, 1, "C2"));
  if (ctx.rank(0) < 1) return ctx.fail(Code::kShapeMismatch, "C3", "the operands are scalars");
  const Dim& n = ctx.shape(0).back();
  if (!n.is_static() || n.value() > kLongest)
    return ctx.fail(Code::kShapeMismatch, "C4", "the last dimension is {}, expected a static size of at most {}",
                    n.str(), kLongest);
  return Types{ctx.operands[0], ctx.operands[0]};
}

/// The transform is its own transpose but for the sign of the imaginary part: the gradient is that of the conjugate.
std::vector<MaybeVal> vjp_fft(VjpContext& ctx) {
  std::vector<Val> out = ctx.b.add("fft", {ctx.ct(0), ctx.ct(1)}, {{"inverse", !ctx.attrs().get_bool("inverse")}});
  return {out[0], out[1]};
}

std::vector<MaybeVal> jvp_fft(JvpContext& ctx) {
  std::vector<Val> out = ctx.b.add("fft", {ctx.tangent(0), ctx.tangent(1)}, ctx.attrs());
  return {out[0], out[1]};
}

Example fft_example(const Shape& shape, bool inverse) {
  return {{operand(f32(shape)), operand(f32(shape))}, {{"inverse", inverse}}};
}

OpDef fft() {
  return {
      .name = "fft",
      .version = 1,
      .category = "signals",
      .doc =
          "y[k] = sum over j of x[j] exp(-2 pi i j k / n) along the last dimension, of any length n; + instead of - "
          "where `inverse`. Nothing is divided by n. Computed in f64 and rounded once, in n log n steps: mixed radix "
          "2, "
          "3, 4 and 5 (Stockham), otherwise as a convolution (Bluestein). NaN and infinities spread over the sequence.",
      .operands = {{"re", "real parts [..., n]"}, {"im", "imaginary parts, of the same type"}},
      .attrs = {optional("inverse", "the other sign in the exponent", false)},
      .results = {{"y_re", "real parts, of the operands' type"}, {"y_im", "imaginary parts"}},
      .constraints = {{"C1", "the operands are floating"},
                      {"C2", "the operands have one type"},
                      {"C3", "the operands have a dimension"},
                      {"C4", "the last dimension has a static size of at most 2^24"}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_fft,
      .reference = reference_by_procedure,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("a primitive: a procedure of kernel_ir"),
      .vjp = vjp_fft,
      .jvp = jvp_fft,
      .batch = batch_elementwise,
      .factors = [](const TypedOp& t) { return factors_along(t, t.operands[0].rank() - 1, Factors::Kind::kReplicate); },
      .access =
          [](const TypedOp& t) {
            return procedure_fragment(t, "fft", t.operands[0].rank() - 1, {t.attrs.get_bool("inverse")});
          },
      .linearity = ir::jointly_linear({0, 1}),
      .lower = Lowering::kAccess,
      .cost =
          [](const TypedOp& t) {
            int64_t n = t.operands[0].shape.back().value(), steps = 1;
            while (int64_t{1} << steps < n) ++steps;
            Cost cost = pointwise_cost(t, 0);
            cost.flops = t.operands[0].count() * (5 * steps);
            return cost;
          },
      .dtypes = DTypes::kFloats,
      .examples = {fft_example({8}, false), fft_example({2, 7}, false), fft_example({60}, true),
                   fft_example({3, 13}, true), fft_example({1}, false), fft_example({2, 0}, false),
                   fft_example({1000}, false), fft_example({997}, true)},
      .draw =
          [](Rng& rng) {
            return fft_example(random_shape(rng, static_cast<int>(random_int(rng, 1, 3)), 200), random_bool(rng));
          },
      .rejects = {{"C1", {i32({2}), i32({2})}, {}},
                  {"C2", {f32({2}), f32({3})}, {}},
                  {"C3", {f32({}), f32({})}, {}},
                  {"C4", {f32({kLongest + 1}), f32({kLongest + 1})}, {}}},
  };
}

}  // namespace

std::vector<OpDef> fft_ops() { return {fft()}; }

}  // namespace nabla::ops
