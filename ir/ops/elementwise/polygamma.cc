// Derivatives of log gamma: digamma, trigamma and so on.
#include <cmath>
#include <numbers>

#include "ir/ops/access.h"
#include "ir/ops/all_ops.h"

namespace nabla::ops {
namespace {

using kernel_ir::Expr;
using kernel_ir::Fragment;

// Bernoulli numbers B2, B4, ... of the asymptotic series, which starts after kSteps recurrences: terms of order 14 at
// arguments of at least 12 are below 1e-13 for orders that fit a double's precision.
constexpr double kBernoulli[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6};
constexpr int kSteps = 12;
constexpr int64_t kLargestOrder = 12;

double factorial(int64_t n) { return std::tgamma(static_cast<double>(n) + 1); }

/// psi(order, x) = sum over k of sign order! / (x + k)^(order + 1), its first kSteps terms one by one and the rest by
/// Euler and Maclaurin. `T` has + - * and /; log and number make T.
template <class T, class Log, class Number>
T series(T x, int64_t order, Log log, Number number) {
  double sign = order % 2 ? 1 : -1;
  auto power = [&](T base, int64_t n) {
    T out = base;
    for (int64_t i = 1; i < n; ++i) out = out * base;
    return out;
  };
  T one = number(1), y = x + number(kSteps), inverse = one / y;
  T sum = number(0);
  for (int k = 0; k < kSteps; ++k) sum = sum + one / power(x + number(k), order + 1);
  T rest = order == 0 ? number(0) - log(y) : number(factorial(order - 1)) * power(inverse, order);
  rest = rest + number(factorial(order) / 2) * power(inverse, order + 1);
  T even = power(inverse, order + 2);
  for (size_t j = 0; j < std::size(kBernoulli); ++j) {
    int64_t n = 2 * static_cast<int64_t>(j + 1);
    rest = rest + number(kBernoulli[j] * factorial(n + order - 1) / factorial(n)) * even;
    even = even * inverse * inverse;
  }
  return number(sign) * (number(factorial(order)) * sum + rest);
}

/// Coefficients of the polynomial in c = cot(pi x) that is pi^(-order - 1) times the derivative `order` of pi cot(pi x)
/// by x: c' is -pi (1 + c^2).
std::vector<double> cotangent_polynomial(int64_t order) {
  std::vector<double> p = {0, 1};
  for (int64_t i = 0; i < order; ++i) {
    std::vector<double> next(p.size() + 1, 0.0);
    for (size_t k = 1; k < p.size(); ++k) {
      double slope = static_cast<double>(k) * p[k];
      next[k - 1] -= slope;
      next[k + 1] -= slope;
    }
    p = std::move(next);
  }
  return p;
}

/// psi(order, x) from psi(order, 1 - x) and c = cot(pi x).
template <class T, class Number>
T reflected(T y, T c, int64_t order, Number number) {
  std::vector<double> p = cotangent_polynomial(order);
  T sum = number(p.back());
  for (size_t k = p.size() - 1; k-- > 0;) sum = sum * c + number(p[k]);
  return number(order % 2 ? -1 : 1) * y - number(std::pow(std::numbers::pi, order + 1)) * sum;
}

InferResult infer_polygamma(const InferContext& ctx) {
  NABLA_TRY(require_float(ctx, 0, "C1"));
  int64_t order = ctx.attrs.get_int("order");
  if (order < 0 || order > kLargestOrder)
    return ctx.fail(Code::kBadAttribute, "C2", "order is {}, not in [0, {}]", order, kLargestOrder);
  return Types{ctx.operands[0]};
}

double polygamma_value(double x, int64_t order) {
  if (x == std::round(x) && !(x > 0)) return NAN;
  if (std::isinf(x)) return order == 0 ? x : 0;
  auto number = [](double v) { return v; };
  double y = series(
      x > 0 ? x : 1 - x, order, [](double v) { return std::log(v); }, number);
  if (!(x <= 0)) return y;
  double angle = std::numbers::pi * (x - std::round(x));
  return reflected(y, std::cos(angle) / std::sin(angle), order, number);
}

Expr polygamma_expr(const Expr& x, int64_t order) {
  auto number = [&](double v) { return number_like(x, v); };
  Expr above = kernel_ir::call("gt", {x, number(0)});
  Expr y = series(
      kernel_ir::select(above, x, number(1) - x), order, [](const Expr& v) { return unary("log", v); }, number);
  Expr rest = x - unary("round", x), angle = rest * number(std::numbers::pi);
  Expr below = reflected(y, unary("cos", angle) / unary("sin", angle), order, number);
  below = kernel_ir::select(kernel_ir::eq(rest, number(0)), number(NAN), below);
  if (order == 0) y = kernel_ir::select(kernel_ir::eq(x, number(HUGE_VAL)), x, y);  // inf - inf otherwise
  return kernel_ir::select(above, y, below);
}

std::vector<MaybeVal> push(FunctionBuilder& b, Val x, Val t, const Attrs& attrs) {
  return {t * b.op("polygamma", {x}, {{"order", attrs.get_int("order") + 1}})};
}

OpDef polygamma() {
  auto example = [](Shape shape, int64_t order, ValueSpec values) {
    return Example{{operand(f32(std::move(shape)), values)}, {{"order", order}}};
  };
  return {
      .name = "polygamma",
      .version = 1,
      .category = "elementwise",
      .doc =
          "The derivative of order `order` + 1 of log |gamma|: digamma for order 0, trigamma for 1. NaN at 0, the "
          "negative integers and -infinity. By the recurrence up to x + 12 and the asymptotic series there (Abramowitz "
          "and Stegun, 6.4), below 0 by reflection (6.4.7).",
      .operands = {{"x", "any shape"}},
      .attrs = {optional("order", "0 to 12", int64_t{0})},
      .results = {{"y", "of x's type"}},
      .constraints = {{"C1", "the operand is floating"}, {"C2", "the order is in [0, 12]"}},
      .traits = {.elementwise = true},
      .stages = ir::kTensorStages,
      .infer = infer_polygamma,
      .reference = [](const EvalContext& ctx) -> Literals {
        Literal out = zeros(ctx.op.results[0]);
        for (int64_t i = 0; i < out.size(); ++i)
          out.set(i, polygamma_value(ctx.operands[0].get(i), ctx.attrs().get_int("order")));
        return {out};
      },
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("primitive"),
      .vjp = [](VjpContext& ctx) { return push(ctx.b, ctx.operand(0), ctx.ct(), ctx.attrs()); },
      .jvp = [](JvpContext& ctx) { return push(ctx.b, ctx.operand(0), ctx.tangent(0), ctx.attrs()); },
      .batch = batch_elementwise,
      .factors = Factors::pointwise,
      .access =
          [](const TypedOp& op) {
            Fragment f;
            std::vector<int> own = f.add_axes("i", op.operands[0].shape);
            Expr y = polygamma_expr(load_wide(op, 0, kernel_ir::axes_as_indices(own)), op.attrs.get_int("order"));
            f.results = {define(f, "y", own, kernel_ir::convert(op.results[0].dtype, y))};
            return f;
          },
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = [](const TypedOp& op) { return pointwise_cost(op, 100); },
      .dtypes = DTypes::kFloats,
      .examples = {example({2, 3}, 0, between(2, 8)), example({5}, 1, between(0.5, 6)), example({}, 2, between(1, 6)),
                   example({9}, 0, awkward(2, 30)), example({7}, 0, between(-3.8, -3.2)),
                   example({4}, 3, between(-0.7, -0.3)), example({9}, 1, awkward(-2, 2))},
      .draw =
          [example](Rng& rng) {
            Shape shape = random_shape(rng, static_cast<int>(random_int(rng, 0, 2)), 60);
            return example(shape, random_int(rng, 0, 3), between(2, 8));
          },
      .rejects = {{"C1", {i32({2})}, {}},
                  {"C2", {f32({2})}, {{"order", int64_t{-1}}}},
                  {"C2", {f32({2})}, {{"order", int64_t{13}}}}},
  };
}

}  // namespace

std::vector<OpDef> polygamma_ops() { return {polygamma()}; }

}  // namespace nabla::ops
