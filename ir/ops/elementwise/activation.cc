// Activation functions as composites: relu, gelu, silu.
#include <cmath>
#include <numbers>

#include "ir/ops/access.h"
#include "ir/ops/all_ops.h"

namespace nabla::ops {
namespace {

using kernel_ir::Expr;
using kernel_ir::Fragment;

InferResult infer_activation(const InferContext& ctx) {
  NABLA_TRY(require_float(ctx, 0, "C1"));
  return Types{ctx.operands[0]};
}

/// What an activation means: per element for the reference, as an expression and as ops in the accumulation type.
/// The attributes are those of the node.
struct Meaning {
  double (*value)(double x, const Attrs& attrs);
  Expr (*expr)(Expr x, const Attrs& attrs);
  Val (*ops)(Val x, const Attrs& attrs);
};

OpDef make_activation(const char* name, const char* doc, Meaning meaning, int64_t flops) {
  auto example = [](Shape shape) { return Example{{operand(f32(std::move(shape)), between(-2, 4))}, {}}; };
  return {
      .name = name,
      .version = 1,
      .category = "composite",
      .doc = doc,
      .operands = {{"x", "any shape"}},
      .attrs = {},
      .results = {{"y", "shaped like x"}},
      .constraints = {{"C1", "the operand is floating"}},
      .traits = {.elementwise = true, .composite = true},
      .stages = ir::kTensorStages,
      .infer = infer_activation,
      .reference = [meaning](const EvalContext& ctx) -> Literals {
        Literal out = zeros(ctx.op.results[0]);
        for (int64_t i = 0; i < out.size(); ++i) out.set(i, meaning.value(ctx.operands[0].get(i), ctx.attrs()));
        return {out};
      },
      .fold = fold_by_reference(),
      .decompose = [meaning](DecomposeContext& ctx) -> std::vector<Val> {
        return {convert(meaning.ops(wide(ctx.operand(0)), ctx.attrs()), ctx.operand(0).dtype())};
      },
      .vjp = ir::by_decomposition(),
      .jvp = ir::by_decomposition(),
      .batch = batch_elementwise,
      .factors = Factors::pointwise,
      .access =
          [meaning](const TypedOp& op) {
            Fragment f;
            std::vector<int> own = f.add_axes("i", op.operands[0].shape);
            Expr y = meaning.expr(load_wide(op, 0, kernel_ir::axes_as_indices(own)), op.attrs);
            f.results = {define(f, "y", own, kernel_ir::convert(op.results[0].dtype, y))};
            return f;
          },
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = [flops](const TypedOp& op) { return pointwise_cost(op, flops); },
      .dtypes = DTypes::kFloats,
      .examples = {example({2, 3}), example({}), example({3, 0})},
      .draw = [example](Rng& rng) { return example(random_shape(rng, static_cast<int>(random_int(rng, 0, 3)))); },
      .rejects = {{"C1", {i32({2, 3})}, {}}},
  };
}

OpDef relu() {
  OpDef op = make_activation("relu", "max(x, 0). The derivative at 0 is 0; NaN stays NaN.",
                             {[](double x, const Attrs&) { return std::isnan(x) ? x : std::fmax(x, 0); },
                              [](Expr x, const Attrs&) {
                                return kernel_ir::call("maximum", {x, number_like(x, 0)});
                              },
                              [](Val x, const Attrs&) { return apply("maximum", x, x.b->zeros_like(x)); }},
                             1);
  // The decomposition would give half of the cotangent at 0.
  auto push = [](Val x, Val t) -> std::vector<MaybeVal> {
    return {select(apply("gt", x, x.b->zeros_like(x)), t, x.b->zeros_like(t))};
  };
  op.vjp = [push](VjpContext& ctx) { return push(ctx.operand(0), ctx.ct()); };
  op.jvp = [push](JvpContext& ctx) { return push(ctx.operand(0), ctx.tangent(0)); };
  return op;
}

OpDef silu() {
  OpDef op = make_activation("silu", "x / (1 + exp(-x)), also called swish.",
                         {[](double x, const Attrs&) { return x / (1 + std::exp(-x)); },
                          [](Expr x, const Attrs&) { return x / (number_like(x, 1) + unary("exp", unary("neg", x))); },
                          [](Val x, const Attrs&) { return x * apply("logistic", x); }},
                         4);
  // The derivative of the decomposition would multiply the cotangent by x first. That overflows for large x, even if the slope is 0.
  auto push = [](Val x, Val t) -> std::vector<MaybeVal> {
    Val w = wide(x), s = apply("logistic", w);
    return {convert(wide(t) * (s + w * (s * (1.0 - s))), x.dtype())};
  };
  op.vjp = [push](VjpContext& ctx) { return push(ctx.operand(0), ctx.ct()); };
  op.jvp = [push](JvpContext& ctx) { return push(ctx.operand(0), ctx.tangent(0)); };
  return op;
}

// ---- gelu: the only one with an attribute.

constexpr double kCubic = 0.044715;
const double kRootTwoOverPi = std::sqrt(2 / std::numbers::pi);

bool by_tanh(const Attrs& attrs) { return attrs.get_string("approximate") == "tanh"; }

double gelu_value(double x, const Attrs& attrs) {
  return by_tanh(attrs) ? 0.5 * x * (1 + std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x)))
                        : 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
}

Expr gelu_expr(Expr x, const Attrs& attrs) {
  auto c = [&](double v) { return number_like(x, v); };
  // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), which does not cancel where u is far below 0.
  if (by_tanh(attrs)) return x / (c(1) + unary("exp", c(-2 * kRootTwoOverPi) * (x + c(kCubic) * x * x * x)));
  return c(0.5) * x * (c(1) + unary("erf", x * c(1 / std::numbers::sqrt2)));
}

Val gelu_ops(Val x, const Attrs& attrs) {
  if (by_tanh(attrs)) return x * apply("logistic", (x + x * x * x * kCubic) * (2 * kRootTwoOverPi));
  return x * 0.5 * (apply("erf", x * (1 / std::numbers::sqrt2)) + 1);
}

OpDef gelu() {
  OpDef op = make_activation("gelu",
                             "x times the normal distribution function at x: exactly, by erf (\"none\"), or as "
                             "0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (\"tanh\"). By erf the absolute error is "
                             "small everywhere, but not the relative one far below 0. Hendrycks and Gimpel, \"Gaussian "
                             "error linear units\", 2016.",
                             {gelu_value, gelu_expr, gelu_ops}, 10);
  op.attrs = {optional("approximate", "\"tanh\" or \"none\"", std::string("tanh"))};
  op.constraints.push_back({"C2", "approximate is \"tanh\" or \"none\""});
  op.infer = [](const InferContext& ctx) -> InferResult {
    const std::string& how = ctx.attrs.get_string("approximate");
    if (how != "tanh" && how != "none")
      return ctx.fail(Code::kBadAttribute, "C2", "approximate is \"{}\", expected \"tanh\" or \"none\"{}", how,
                      did_you_mean(how, {"tanh", "none"}));
    return infer_activation(ctx);
  };
  op.examples[0].attrs = {{"approximate", std::string("tanh")}};
  op.examples.push_back(op.examples[0]);
  op.examples.back().attrs = {{"approximate", std::string("none")}};
  op.draw = [](Rng& rng) {
    Example e{{operand(f32(random_shape(rng, static_cast<int>(random_int(rng, 0, 3)))), between(-2, 4))}, {}};
    e.attrs = {{"approximate", std::string(random_bool(rng) ? "tanh" : "none")}};
    return e;
  };
  op.rejects.push_back({"C2", {f32({2})}, {{"approximate", std::string("tan")}}});
  return op;
}

}  // namespace

std::vector<OpDef> activation_ops() { return {relu(), gelu(), silu()}; }

}  // namespace nabla::ops
