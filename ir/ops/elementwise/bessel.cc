// Modified Bessel functions of the first kind, scaled by exp(-|x|).
#include <cmath>
#include <numbers>

#include "ir/ops/access.h"
#include "ir/ops/all_ops.h"
#include "ir/ops/elementwise/elementwise.h"

namespace nabla::ops {
namespace {

using kernel_ir::Expr;

// Polynomials in t: exp(-x) I(x) / x^order on [0, 8] with t = x / 4 - 1, and sqrt(x) exp(-x) I(x) beyond with
// t = 16 / x - 1. Chebyshev series, cut where terms fall below 2e-17 and written in powers of t: the coefficients are
// below 1, so that nothing cancels.
constexpr double kI0Near[] = {
    0.2070019212239867,     -0.11300432688620539,   0.09451562853995098,    -0.08904344136077749,
    0.08734341617552316,    -0.08496338091541733,   0.07927522590716346,    -0.06954119563168236,
    0.05677703201991694,    -0.042985949295422196,  0.03017791202297836,    -0.019682655791721185,
    0.01196007790702622,    -0.006792394790940049,  0.003617126448897043,   -0.0018119030567637058,
    0.0008563152748272305,  -0.0003828652649829953, 0.00016240542162878106, -6.55680596440179e-05,
    2.520232727107692e-05,  -9.183742586936205e-06, 3.2293390826404927e-06, -1.1420453238819167e-06,
    3.6758429265554296e-07, -8.591406444264666e-08, 2.626536315197011e-08,  -1.6316042856792757e-08,
    4.470516727511741e-09};
constexpr double kI0Far[] = {
    0.40217650944500805,    0.003360551983667751,  0.00013621607438984738, 1.114303380070898e-05,
    1.4838476651250268e-06, 2.973596046562713e-07, 8.872034383313944e-08,  3.932889375114511e-08,
    2.1566251453120202e-08, 7.534355843809736e-09, -6.849338188359798e-09, -1.3326094405786434e-08,
    -5.038106487693264e-09, 7.335968710855757e-09, 6.560138746528788e-09,  -3.13462764297369e-09,
    -4.575553424073457e-09, 1.105055879480676e-09, 2.196892137541991e-09,  -2.80338199805248e-10,
    -6.633287111122987e-10, 3.629355230026426e-11, 9.36508689024762e-11};
constexpr double kI1Near[] = {
    0.04468770987560883,    -0.06112433802966629,    0.0680575999095127,     -0.06848260620582691,
    0.06376740371333642,    -0.05528003922699163,    0.04467457262306668,    -0.03367135552108536,
    0.02368601693352639,    -0.015571309243980052,   0.009583962344356725,   -0.005534567847563678,
    0.003005761416447221,   -0.00153887456203039,    0.0007445158727006064,  -0.00034117602890733307,
    0.00014841259927108295, -6.142360299099795e-05,  2.4248668418883105e-05, -9.136543922789091e-06,
    3.275843813058896e-06,  -1.1327072698408053e-06, 3.909437548023672e-07,  -1.2424759932738304e-07,
    2.987385645901576e-08,  -8.984420960424587e-09,  5.2131237878886215e-09, -1.41695079121077e-09};
constexpr double kI1Far[] = {
    0.38939845902587233,     -0.009749577193235635,   -0.0002192357638317243,  -1.5038547209501858e-05,
    -1.8349102358955385e-06, -3.4838534380376344e-07, -1.0001095659636335e-07, -4.313196489977612e-08,
    -2.3392503748034764e-08, -8.409182040449204e-09,  6.840138997781503e-09,   1.395855100140564e-08,
    5.593370101576297e-09,   -7.444441477236112e-09,  -6.983839624499769e-09,  3.0868867367713315e-09,
    4.810597404619235e-09,   -1.0594544160817473e-09, -2.297004161537574e-09,  2.63407710967548e-10,
    6.917089292741916e-10,   -3.365431853480844e-11,  -9.75239720151788e-11};

template <size_t n>
Expr polynomial(const double (&c)[n], const Expr& t) {
  Expr sum = number_like(t, c[n - 1]);
  for (size_t i = n - 1; i-- > 0;) sum = sum * t + number_like(t, c[i]);
  return sum;
}

template <size_t near, size_t far>
Expr scaled_bessel(const Expr& x, int order, const double (&c)[near], const double (&d)[far]) {
  Expr a = unary("abs", x), edge = number_like(x, 8);
  Expr small = kernel_ir::call("lt", {a, edge});
  Expr inside = polynomial(c, kernel_ir::select(small, a, edge) / number_like(x, 4) - number_like(x, 1));
  Expr outside = polynomial(d, number_like(x, 16) / kernel_ir::select(small, edge, a) - number_like(x, 1));
  outside = outside / unary("sqrt", kernel_ir::select(small, edge, a));
  if (order == 0) return kernel_ir::select(small, inside, outside);
  return kernel_ir::select(small, inside * x, outside * unary("sign", x));
}

/// The power series, whose terms are all positive, as long as its sum can be written down; then the asymptotic one.
double scaled_series(double x, int order) {
  long double a = std::fabs(x), sum = 0;
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return std::copysign(0.0, order ? x : 1);
  if (a < 5000) {
    long double term = order ? a / 2 : 1;
    for (int k = 1; term > sum * 1e-21L || k < a / 2; ++k) {
      sum += term;
      term *= a * a / 4 / k / (k + order);
    }
    sum *= std::exp(-a);
  } else {
    long double term = 1 / std::sqrt(2 * std::numbers::pi_v<long double> * a), mu = 4.0L * order * order;
    for (int k = 1; k < 12; ++k) {
      sum += term;
      term *= -(mu - (2 * k - 1) * (2 * k - 1)) / (8 * k * a);
    }
  }
  return std::copysign(static_cast<double>(sum), order ? x : 1);
}

/// Returns i1e(x) / x, given y = i1e(x). Near 0 it uses a power series times exp(-|x|), because derivatives of the quotient cancel there.
Val over_x(Val x, Val y) {
  Val small = apply("lt", apply("abs", x), x.b->like(x, 0.05));
  Val near = ir::select(small, x, x.b->zeros_like(x)), square = near * near;
  Val series = (square * (square * (square * (1.0 / 18432) + 1.0 / 384) + 1.0 / 16) + 0.5) * apply("exp", -apply("abs", near));
  return ir::select(small, series, y / ir::select(small, x.b->like(x, 1), x));
}

ElementwiseSpec row(const char* name, const char* doc, double (*on_floats)(const double*),
                    Expr (*expr)(const std::vector<Expr>&), PushRule push) {
  ElementwiseSpec spec;
  spec.name = name;
  spec.doc = doc;
  spec.operands = {{"x", "the operand"}};
  spec.on_floats = on_floats;
  spec.expr = expr;
  spec.push = {push};
  spec.flops = 120;
  spec.values = {between(-20, 20)};
  return spec;
}

}  // namespace

std::vector<OpDef> bessel_ops() {
  return {
      make_elementwise(row(
          "bessel_i0e",
          "exp(-|x|) I0(x), the modified Bessel function of the first kind of order 0, scaled. By polynomials on "
          "both sides of |x| = 8.",
          +[](const double* x) { return scaled_series(x[0], 0); },
          +[](const std::vector<Expr>& x) { return scaled_bessel(x[0], 0, kI0Near, kI0Far); },
          +[](const Push& p) { return p.t * (apply("bessel_i1e", p.x[0]) - apply("sign", p.x[0]) * p.y); })),
      make_elementwise(row(
          "bessel_i1e",
          "exp(-|x|) I1(x), the modified Bessel function of the first kind of order 1, scaled; odd. By polynomials "
          "on both sides of |x| = 8.",
          +[](const double* x) { return scaled_series(x[0], 1); },
          +[](const std::vector<Expr>& x) { return scaled_bessel(x[0], 1, kI1Near, kI1Far); },
          +[](const Push& p) {
            return p.t * (apply("bessel_i0e", p.x[0]) - p.y * apply("sign", p.x[0]) - over_x(p.x[0], p.y));
          })),
  };
}

}  // namespace nabla::ops
