// Ops of one operand, a row each.
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/ops/elementwise/elementwise.h"

namespace nabla::ops {
namespace {

using kernel_ir::Expr;

// The operators of Val need the namespace of Val; they are found by argument.

constexpr const char* kBoolean = "the result is boolean";

std::vector<OperandDef> one_operand() { return {{"x", "the operand"}}; }

ElementwiseSpec unary(std::string name, std::string doc, double (*f)(const double*), PushRule push,
                      ValueSpec values = between(-2, 2), int flops = 10) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .operands = one_operand(),
          .on_floats = f,
          .push = {push},
          .flops = flops,
          .values = {values}};
}

// Piecewise constant on floats: the derivative is 0 wherever it exists.
ElementwiseSpec rounding(std::string name, std::string doc, double (*f)(const double*)) {
  return unary(std::move(name), std::move(doc), f, nullptr, between(-4, 4), 1);
}

ElementwiseSpec numeric(std::string name, std::string doc, double (*f)(const double*),
                        int64_t (*g)(DType, const int64_t*), PushRule push) {
  ElementwiseSpec spec = unary(std::move(name), std::move(doc), f, push, between(-3, 3), 1);
  spec.domain = Domain::kNumeric;
  spec.on_ints = g;
  return spec;
}

ElementwiseSpec predicate(std::string name, std::string doc, double (*f)(const double*)) {
  ElementwiseSpec spec = unary(std::move(name), std::move(doc), f, nullptr, between(-2, 2), 1);
  spec.predicate = true;
  spec.refusal = kBoolean;
  return spec;
}

int64_t wrapping_neg(int64_t x) { return static_cast<int64_t>(0 - static_cast<uint64_t>(x)); }

ElementwiseSpec bit_count(std::string name, std::string doc, int64_t (*g)(DType, const int64_t*)) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .operands = one_operand(),
          .domain = Domain::kInteger,
          .on_ints = g,
          .refusal = "the operand is not floating",
          .values = {between(0, 1)}};
}

std::vector<ElementwiseSpec> simple_rows() {
  ElementwiseSpec neg = numeric(
      "neg", "-x. Integers wrap: the most negative value and unsigned values are taken modulo 2^bits.",
      +[](const double* x) { return -x[0]; }, +[](DType, const int64_t* x) { return wrapping_neg(x[0]); },
      +[](const Push& p) { return -p.t; });
  neg.linearity = ir::jointly_linear({0});
  ElementwiseSpec is_inf = predicate(
      "is_inf", "Whether x is infinite.", +[](const double* x) -> double { return std::isinf(x[0]); });
  is_inf.expr = +[](const std::vector<Expr>& x) {
    return kernel_ir::eq(kernel_ir::call("abs", {x[0]}),
                         kernel_ir::constant(x[0]->dtype, std::numeric_limits<double>::infinity()));
  };
  ElementwiseSpec bit_not{
      .name = "not",
      .doc = "Logical negation of bool; every bit inverted for integers.",
      .operands = one_operand(),
      .domain = Domain::kBits,
      .on_ints = +[](DType d, const int64_t* x) { return d == DType::kBool ? 1 - x[0] : -1 - x[0]; },
      .refusal = "the operand is not floating",
      .values = {between(0, 1)}};
  return {
      neg,
      numeric(
          "abs", "|x|. The most negative integer gives itself; NaN stays. The derivative at 0 is 0.",
          +[](const double* x) { return std::fabs(x[0]); },
          +[](DType d, const int64_t* x) { return is_signed(d) && x[0] < 0 ? wrapping_neg(x[0]) : x[0]; },
          +[](const Push& p) { return p.t * apply("sign", p.x[0]); }),
      numeric(
          "sign", "-1, 0 or 1 by the sign of x. NaN stays NaN; -0 gives 0. Its derivative is 0.",
          +[](const double* x) {
            return x[0] > 0 ? 1.0 : x[0] < 0 ? -1.0 : x[0] == 0 ? 0.0 : x[0];
          },
          +[](DType d, const int64_t* x) {
            return x[0] == 0 ? int64_t{0} : is_signed(d) && x[0] < 0 ? int64_t{-1} : int64_t{1};
          },
          nullptr),
      rounding(
          "floor", "The largest integer <= x. Infinities and NaN stay. Its derivative is 0.",
          +[](const double* x) { return std::floor(x[0]); }),
      rounding(
          "ceil", "The smallest integer >= x. Infinities and NaN stay. Its derivative is 0.",
          +[](const double* x) { return std::ceil(x[0]); }),
      rounding(
          "trunc", "The integer part of x, towards zero. Infinities and NaN stay. Its derivative is 0.",
          +[](const double* x) { return std::trunc(x[0]); }),
      rounding(
          "round", "The nearest integer, ties to even (IEEE 754 roundToIntegralTiesToEven). Its derivative is 0.",
          +[](const double* x) { return std::nearbyint(x[0]); }),
      predicate(
          "is_finite", "Whether x is neither infinite nor NaN.",
          +[](const double* x) -> double { return std::isfinite(x[0]); }),
      predicate(
          "is_nan", "Whether x is NaN.", +[](const double* x) -> double { return std::isnan(x[0]); }),
      is_inf,
      bit_not,
      bit_count(
          "popcount", "How many bits of x are set.",
          +[](DType d, const int64_t* x) { return int64_t{__builtin_popcountll(low_bits(d, x[0]))}; }),
      bit_count(
          "clz", "How many bits above the highest set one are zero; all of them for 0.",
          +[](DType d, const int64_t* x) {
            int64_t zeros = 0;
            for (int bit = 8 * bytes_of(d) - 1; bit >= 0 && !(low_bits(d, x[0]) >> bit & 1); --bit) ++zeros;
            return zeros;
          }),
  };
}

Val square(Val x) { return x * x; }
Val erf_slope(Val x) { return apply("exp", -square(x)) * (2 * std::numbers::inv_sqrtpi); }

// Derivatives are written in the result y where that saves evaluating the function again.
std::vector<ElementwiseSpec> exponential_rows() {
  ElementwiseSpec logistic = unary(
      "logistic", "1 / (1 + exp(-x)), the logistic sigmoid. -inf gives 0 and inf gives 1.",
      +[](const double* x) { return 1 / (1 + std::exp(-x[0])); },
      +[](const Push& p) { return p.t * (p.y * (1.0 - p.y)); }, between(-4, 4));
  logistic.expr = +[](const std::vector<Expr>& x) {
    Expr one = kernel_ir::constant(x[0]->dtype, 1);
    return one / (one + kernel_ir::call("exp", {kernel_ir::call("neg", {x[0]})}));
  };
  return {
      unary(
          "exp", "e^x. Overflows to inf; -inf gives 0.", +[](const double* x) { return std::exp(x[0]); },
          +[](const Push& p) { return p.t * p.y; }),
      unary(
          "expm1", "e^x - 1, accurate near 0.", +[](const double* x) { return std::expm1(x[0]); },
          +[](const Push& p) { return p.t * (p.y + 1.0); }),
      unary(
          "log", "Natural logarithm. 0 gives -inf, negative values NaN.",
          +[](const double* x) { return std::log(x[0]); }, +[](const Push& p) { return p.t / p.x[0]; },
          between(0.2, 4)),
      unary(
          "log1p", "log(1 + x), accurate near 0. -1 gives -inf, smaller values NaN.",
          +[](const double* x) { return std::log1p(x[0]); }, +[](const Push& p) { return p.t / (p.x[0] + 1.0); },
          between(-0.7, 3)),
      unary(
          "sqrt", "Square root. Negative values give NaN; -0 stays. The derivative at 0 is infinite.",
          +[](const double* x) { return std::sqrt(x[0]); }, +[](const Push& p) { return p.t * 0.5 / p.y; },
          between(0.2, 4), 4),
      unary(
          "rsqrt", "1 / sqrt(x). 0 gives inf, -0 gives -inf, negative values NaN.",
          +[](const double* x) { return 1 / std::sqrt(x[0]); },
          +[](const Push& p) { return p.t * (p.y * p.y * p.y) * -0.5; }, between(0.2, 4), 5),
      unary(
          "tanh", "Hyperbolic tangent; infinities give -1 and 1.", +[](const double* x) { return std::tanh(x[0]); },
          +[](const Push& p) { return p.t * (1.0 - p.y * p.y); }),
      unary(
          "erf", "The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.",
          +[](const double* x) { return std::erf(x[0]); },
          +[](const Push& p) { return p.t * vanishing(p.x[0], erf_slope); }),
      logistic,
  };
}

std::vector<ElementwiseSpec> special_rows() {
  return {
      unary(
          "exp2", "2^x. Overflows to inf; -inf gives 0.", +[](const double* x) { return std::exp2(x[0]); },
          +[](const Push& p) { return p.t * p.y * std::numbers::ln2; }),
      unary(
          "log2", "Logarithm to base 2. 0 gives -inf, negative values NaN.",
          +[](const double* x) { return std::log2(x[0]); },
          +[](const Push& p) { return p.t / p.x[0] * std::numbers::log2e; }, between(0.2, 4)),
      unary(
          "cbrt", "Cube root, also of negative values. The derivative at 0 is infinite.",
          +[](const double* x) { return std::cbrt(x[0]); },
          +[](const Push& p) { return p.t * vanishing(p.y, +[](Val y) { return y.b->like(y, 1) / (square(y) * 3.0); }); },
          between(0.2, 4), 20),
      unary(
          "erfc", "1 - erf(x), accurate where erf is close to 1.", +[](const double* x) { return std::erfc(x[0]); },
          +[](const Push& p) { return -(p.t * vanishing(p.x[0], erf_slope)); }),
      unary(
          "erfinv", "The inverse of erf: 1 and -1 give infinities, values beyond NaN.",
          +[](const double* x) {
            return kernel_ir::find_scalar("erfinv")->eval_float({x, 1});
          },
          +[](const Push& p) { return p.t * (apply("exp", square(p.y)) * (0.5 / std::numbers::inv_sqrtpi)); },
          between(-0.9, 0.9), 30),
      unary(
          "lgamma", "log |gamma(x)|; infinite at 0 and the negative integers. The derivative is polygamma(x).",
          +[](const double* x) { return std::lgamma(x[0]); },
          +[](const Push& p) {
            return p.t * p.x[0].b->op("polygamma", {p.x[0]}, {{"order", int64_t{0}}});
          },
          between(0.3, 6), 60),
  };
}

// Derivatives of inverse functions are written in x.
std::vector<ElementwiseSpec> inverse_rows() {
  return {
      unary(
          "asin", "Arc sine in [-pi/2, pi/2]; NaN beyond -1 and 1.", +[](const double* x) { return std::asin(x[0]); },
          +[](const Push& p) { return p.t * apply("rsqrt", 1.0 - square(p.x[0])); }, between(-0.9, 0.9)),
      unary(
          "acos", "Arc cosine in [0, pi]; NaN beyond -1 and 1.", +[](const double* x) { return std::acos(x[0]); },
          +[](const Push& p) { return -(p.t * apply("rsqrt", 1.0 - square(p.x[0]))); }, between(-0.9, 0.9)),
      unary(
          "atan", "Arc tangent in [-pi/2, pi/2].", +[](const double* x) { return std::atan(x[0]); },
          +[](const Push& p) { return p.t * vanishing(p.x[0], +[](Val x) { return x.b->like(x, 1) / (square(x) + 1.0); }); },
          between(-4, 4)),
      unary(
          "sinh", "Hyperbolic sine.", +[](const double* x) { return std::sinh(x[0]); },
          +[](const Push& p) { return p.t * apply("cosh", p.x[0]); }, between(-3, 3)),
      unary(
          "cosh", "Hyperbolic cosine.", +[](const double* x) { return std::cosh(x[0]); },
          +[](const Push& p) { return p.t * apply("sinh", p.x[0]); }, between(-3, 3)),
      unary(
          "asinh", "Inverse hyperbolic sine.", +[](const double* x) { return std::asinh(x[0]); },
          +[](const Push& p) { return p.t * vanishing(p.x[0], +[](Val x) { return apply("rsqrt", square(x) + 1.0); }); },
          between(-4, 4)),
      unary(
          "acosh", "Inverse hyperbolic cosine; NaN below 1. The derivative at 1 is infinite.",
          +[](const double* x) { return std::acosh(x[0]); },
          +[](const Push& p) { return p.t * apply("rsqrt", square(p.x[0]) + -1.0); }, between(1.2, 5)),
      unary(
          "atanh", "Inverse hyperbolic tangent; 1 and -1 give infinities, values beyond NaN.",
          +[](const double* x) { return std::atanh(x[0]); },
          +[](const Push& p) { return p.t * vanishing(p.x[0], +[](Val x) { return x.b->like(x, 1) / (1.0 - square(x)); }); },
          between(-0.9, 0.9)),
  };
}

std::vector<ElementwiseSpec> trigonometric_rows() {
  return {
      unary(
          "sin", "Sine of x in radians; infinities give NaN.", +[](const double* x) { return std::sin(x[0]); },
          +[](const Push& p) { return p.t * apply("cos", p.x[0]); }, between(-4, 4)),
      unary(
          "cos", "Cosine of x in radians; infinities give NaN.", +[](const double* x) { return std::cos(x[0]); },
          +[](const Push& p) { return -(p.t * apply("sin", p.x[0])); }, between(-4, 4)),
      unary(
          "tan", "Tangent of x in radians; infinities give NaN.", +[](const double* x) { return std::tan(x[0]); },
          +[](const Push& p) { return p.t * (p.y * p.y + 1.0); }, between(-1.2, 1.2)),
  };
}

}  // namespace

std::vector<OpDef> unary_ops() {
  std::vector<OpDef> out;
  for (auto rows : {simple_rows, exponential_rows, special_rows, inverse_rows, trigonometric_rows})
    for (ElementwiseSpec& spec : rows()) out.push_back(make_elementwise(std::move(spec)));
  return out;
}

}  // namespace nabla::ops
