// Ops of two operands of one type, a row each.
#include <cmath>
#include <limits>

#include "ir/ops/elementwise/elementwise.h"

namespace nabla::ops {
namespace {

using kernel_ir::Combiner;

using FloatFn = double (*)(const double*);
using IntFn = int64_t (*)(DType, const int64_t*);


bool int_less(DType d, int64_t a, int64_t b) {
  return is_unsigned(d) ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

// Unsigned arithmetic wraps; the literal keeps the low bits.
int64_t int_div(DType d, const int64_t* x) {
  if (x[1] == 0) return -1;
  if (is_unsigned(d)) return static_cast<int64_t>(static_cast<uint64_t>(x[0]) / static_cast<uint64_t>(x[1]));
  if (x[1] == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(x[0]));
  return x[0] / x[1];
}

int64_t int_rem(DType d, const int64_t* x) {
  if (x[1] == 0) return x[0];
  if (is_unsigned(d)) return static_cast<int64_t>(static_cast<uint64_t>(x[0]) % static_cast<uint64_t>(x[1]));
  return x[1] == -1 ? 0 : x[0] % x[1];
}

int64_t int_pow(DType d, const int64_t* x) {
  if (is_signed(d) && x[1] < 0) {
    if (x[0] == 1) return 1;
    return x[0] == -1 ? (x[1] % 2 == 0 ? 1 : -1) : 0;
  }
  // Square and multiply, highest bit first.
  uint64_t exponent = static_cast<uint64_t>(x[1]), product = 1;
  for (int bit = 63; bit >= 0; --bit) {
    product *= product;
    if (exponent >> bit & 1) product *= static_cast<uint64_t>(x[0]);
  }
  return static_cast<int64_t>(product);
}

ElementwiseSpec binary(std::string name, std::string doc, FloatFn f, IntFn g, PushRule push_a, PushRule push_b,
                       ValueSpec a = between(-3, 3), ValueSpec b = between(-3, 3)) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .operands = {{"a", "the left operand"}, {"b", "the right operand"}},
          .domain = g ? Domain::kNumeric : Domain::kFloat,
          .on_floats = f,
          .on_ints = g,
          .push = {push_a, push_b},
          .values = {a, b}};
}

ElementwiseSpec with(ElementwiseSpec spec, ir::Linearity linearity, bool commutative, int flops = 1) {
  spec.linearity = std::move(linearity);
  spec.commutative = commutative;
  spec.flops = flops;
  return spec;
}

// Of an op that is `own`, where `other` is the other one of max and min, or of and and or: each distributes over itself
// and over the other.
ir::Linearity distributive(Combiner own, Combiner other) {
  using Kind = ir::Linearity::Kind;
  return ir::jointly(own, {0, 1}).also(own, Kind::kEach, {0, 1}).also(other, Kind::kEach, {0, 1});
}

// t where a beats b, half of it where they tie, 0 elsewhere (and where either is NaN).
Val share_of_winner(const Push& p, const char* beats, int self, int other) {
  Val zero = p.t.b->zeros_like(p.t);
  Val tie = apply("eq", p.x[self], p.x[other]), win = apply(beats, p.x[self], p.x[other]);
  return ir::select(win, p.t, ir::select(tie, p.t * 0.5, zero));
}

// b * a^(b-1). Two cases would give 0 * inf. If b is 0 and 1/a is infinite, the exponent becomes b. If b is infinite and the power is 0,
// the slope is 0: pow(0.5, inf) has slope 0.
Val push_pow_base(const Push& p) {
  Val a = p.x[0], b = p.x[1], zero = a.b->zeros_like(a);
  Val constant = apply("and", apply("eq", b, zero), apply("is_inf", a.b->like(a, 1) / a));
  Val power = apply("pow", a, ir::select(constant, b, b + -1.0));
  Val vanishes = apply("and", apply("is_inf", b), apply("eq", power, zero));
  return p.t * (ir::select(vanishes, zero, b) * power);
}

// a^b * log(a). The slope is 0 if a <= 0, and if a is infinite and a^b is 0. In both cases 1 replaces a in the unused product, so that
// the derivatives of this slope are not NaN.
Val push_pow_exponent(const Push& p) {
  Val a = p.x[0], zero = a.b->zeros_like(a);
  Val vanishes = apply("and", apply("is_inf", a), apply("eq", p.y, zero));
  Val known = apply("and", apply("gt", a, zero), apply("not", vanishes));
  Val base = ir::select(known, a, a.b->like(a, 1));
  return ir::select(known, p.t * apply("pow", base, p.x[1]) * apply("log", base), zero);
}

// t * x[which] / (x0^2 + x1^2). At (0, 0) the slope is 0. Both operands are divided by the larger magnitude first, because squares of
// 1e-30 and 1e30 leave the range of f32. The quotient does not depend on this divisor, so stop_gradient keeps it constant. If an operand
// is infinite, infinities become 1 or -1 and finite operands become 0. The final division by infinity then gives 0.
Val push_atan2(const Push& p, int which) {
  Val a = p.x[0], b = p.x[1], zero = a.b->zeros_like(a), one = a.b->like(a, 1);
  Val size = apply("stop_gradient", apply("maximum", apply("abs", a), apply("abs", b)));
  Val far = apply("is_inf", size), origin = apply("eq", size, zero);
  auto part = [&](Val x) { return ir::select(far, ir::select(apply("is_inf", x), apply("sign", x), zero), x); };
  Val divisor = ir::select(apply("or", far, origin), one, size);
  Val u = part(a) / divisor, v = part(b) / divisor;
  Val squares = ir::select(origin, one, u * u + v * v);
  return p.t * ((which == 0 ? u : v) / squares) / ir::select(origin, one, size);
}

// The op with a rule of index arithmetic, which gets operands that are known as sizes.
template <class Rule>
ElementwiseSpec in_sizes(ElementwiseSpec spec, Rule) {
  spec.as_size = +[](const ir::SizeContext& c) -> std::optional<Dim> {
    if (!c.operands[0] || !c.operands[1]) return std::nullopt;
    return Rule()(*c.operands[0], *c.operands[1]);
  };
  return spec;
}

// 1 if a < b whatever their symbols are, 0 if never, nothing if that depends.
std::optional<Dim> is_less(const Dim& a, const Dim& b) {
  if (Dim::less_equal(b, a).value_or(false)) return Dim(0);
  return Dim::less_equal(a + 1, b).value_or(false) ? std::optional<Dim>(1) : std::nullopt;
}

ElementwiseSpec addition(ElementwiseSpec spec) {
  spec.form = ir::OpForm::kAdd;
  return spec;
}

// The ops that sizes are computed with.
std::vector<ElementwiseSpec> size_rows() {
  return {
      in_sizes(
          addition(with(binary(
                            "add", "a + b. Integers wrap modulo 2^bits.", +[](const double* x) { return x[0] + x[1]; },
                            +[](DType, const int64_t* x) {
                              return static_cast<int64_t>(static_cast<uint64_t>(x[0]) + static_cast<uint64_t>(x[1]));
                            },
                            +[](const Push& p) { return p.t; }, +[](const Push& p) { return p.t; }),
                        ir::jointly_linear({0, 1}), true)),
          [](const Dim& a, const Dim& b) { return a + b; }),
      in_sizes(with(binary(
                        "sub", "a - b. Integers wrap modulo 2^bits.", +[](const double* x) { return x[0] - x[1]; },
                        +[](DType, const int64_t* x) {
                          return static_cast<int64_t>(static_cast<uint64_t>(x[0]) - static_cast<uint64_t>(x[1]));
                        },
                        +[](const Push& p) { return p.t; }, +[](const Push& p) { return -p.t; }),
                    ir::jointly_linear({0, 1}), false),
               [](const Dim& a, const Dim& b) { return a - b; }),
      in_sizes(with(binary(
                        "mul", "a * b. Integers wrap modulo 2^bits.", +[](const double* x) { return x[0] * x[1]; },
                        +[](DType, const int64_t* x) {
                          return static_cast<int64_t>(static_cast<uint64_t>(x[0]) * static_cast<uint64_t>(x[1]));
                        },
                        +[](const Push& p) { return p.t * p.x[1]; }, +[](const Push& p) { return p.t * p.x[0]; }),
                    ir::linear_in_each({0, 1}).also(Combiner::kProd, ir::Linearity::Kind::kJointly, {0, 1}), true),
               [](const Dim& a, const Dim& b) { return a * b; }),
  };
}

std::vector<ElementwiseSpec> arithmetic_rows() {
  ir::Linearity quotient = ir::linear_in_each({0});
  quotient.claims[0].floats_only = true;
  return {
      with(binary(
               "div",
               "a / b. Integers truncate towards zero; by zero the result is -1 (all bits set), and the most "
               "negative value over -1 gives itself, as in XLA.",
               +[](const double* x) { return x[0] / x[1]; }, int_div, +[](const Push& p) { return p.t / p.x[1]; },
               +[](const Push& p) { return -(p.t * p.y / p.x[1]); }, between(-3, 3), between(0.5, 3)),
           quotient, false, 4),
      with(binary(
               "rem",
               "The remainder of truncating division, with the sign of a (C's fmod). Integers by zero give a; "
               "floats by zero NaN.",
               +[](const double* x) { return std::fmod(x[0], x[1]); }, int_rem, +[](const Push& p) { return p.t; },
               +[](const Push& p) { return -(p.t * apply("round", (p.x[0] - p.y) / p.x[1])); }, between(-3, 3),
               between(0.5, 3)),
           ir::not_linear(), false, 10),
      with(binary(
               "pow",
               "a to the power b, as C's pow: pow(x, 0) is 1 even for NaN. Integer powers wrap; a negative integer "
               "exponent gives 0 unless a is 1 or -1. The derivative by b is 0 where a <= 0.",
               +[](const double* x) { return std::pow(x[0], x[1]); }, int_pow, push_pow_base, push_pow_exponent,
               between(0.3, 3), between(-2, 2)),
           ir::not_linear(), false, 20),
      with(binary(
               "atan2", "The angle of the point (b, a) in (-pi, pi]; atan2(0, 0) is 0.",
               +[](const double* x) { return std::atan2(x[0], x[1]); }, nullptr,
               +[](const Push& p) { return push_atan2(p, 1); }, +[](const Push& p) { return -push_atan2(p, 0); },
               between(0.3, 3), between(-3, 3)),
           ir::not_linear(), false, 20),
      with(binary(
               "maximum",
               "The larger of a and b; NaN if either is NaN. Which zero max(-0, 0) returns is not specified. On a "
               "tie each operand gets half of the cotangent.",
               +[](const double* x) { return std::isnan(x[0])                  ? x[0]
                                             : std::isnan(x[1]) || x[0] < x[1] ? x[1]
                                                                               : x[0]; },
               +[](DType d, const int64_t* x) { return int_less(d, x[0], x[1]) ? x[1] : x[0]; },
               +[](const Push& p) { return share_of_winner(p, "gt", 0, 1); },
               +[](const Push& p) { return share_of_winner(p, "gt", 1, 0); }),
           distributive(Combiner::kMax, Combiner::kMin), true),
      with(binary(
               "minimum",
               "The smaller of a and b; NaN if either is NaN. Which zero min(-0, 0) returns is not specified. On a "
               "tie each operand gets half of the cotangent.",
               +[](const double* x) { return std::isnan(x[0])                  ? x[0]
                                             : std::isnan(x[1]) || x[1] < x[0] ? x[1]
                                                                               : x[0]; },
               +[](DType d, const int64_t* x) { return int_less(d, x[1], x[0]) ? x[1] : x[0]; },
               +[](const Push& p) { return share_of_winner(p, "lt", 0, 1); },
               +[](const Push& p) { return share_of_winner(p, "lt", 1, 0); }),
           distributive(Combiner::kMin, Combiner::kMax), true),
  };
}

std::vector<ElementwiseSpec> bit_rows() {
  auto bits = [](std::string name, std::string doc, IntFn g, ir::Linearity linearity) {
    ElementwiseSpec spec =
        with(binary(std::move(name), std::move(doc), nullptr, g, nullptr, nullptr), std::move(linearity), true);
    spec.domain = Domain::kBits;
    spec.refusal = "the operands are not floating";
    return spec;
  };
  return {
      bits(
          "and", "Logical and of bool; bitwise and of integers.", +[](DType, const int64_t* x) { return x[0] & x[1]; },
          distributive(Combiner::kAnd, Combiner::kOr)),
      bits(
          "or", "Logical or of bool; bitwise or of integers.", +[](DType, const int64_t* x) { return x[0] | x[1]; },
          distributive(Combiner::kOr, Combiner::kAnd)),
      bits(
          "xor", "Exclusive or, of bool or bitwise.", +[](DType, const int64_t* x) { return x[0] ^ x[1]; },
          ir::not_linear()),
  };
}

// The bits of x, as many as the type has.
bool shifts_out(DType d, int64_t by) { return by < 0 || by >= 8 * bytes_of(d); }

int64_t shift_left(DType d, const int64_t* x) {
  return shifts_out(d, x[1]) ? 0 : static_cast<int64_t>(low_bits(d, x[0]) << x[1]);
}
int64_t shift_right_logical(DType d, const int64_t* x) {
  return shifts_out(d, x[1]) ? 0 : static_cast<int64_t>(low_bits(d, x[0]) >> x[1]);
}
int64_t shift_right(DType d, const int64_t* x) {
  if (is_unsigned(d)) return shift_right_logical(d, x);
  return x[0] >> (shifts_out(d, x[1]) ? 63 : x[1]);
}

std::vector<ElementwiseSpec> shift_rows() {
  auto row = [](std::string name, std::string doc, IntFn g) {
    ElementwiseSpec spec =
        with(binary(std::move(name), std::move(doc), nullptr, g, nullptr, nullptr), ir::not_linear(), false);
    spec.domain = Domain::kInteger;
    spec.refusal = "the operands are not floating";
    return spec;
  };
  return {
      row("shift_left", "a moved by b bits to the left; zeros come in. A b below 0, or of all bits or more, gives 0.",
          shift_left),
      row("shift_right",
          "a moved by b bits to the right; copies of the sign come in, zeros for unsigned types. A b below 0, or of "
          "all "
          "bits or more, leaves nothing but these.",
          shift_right),
      row("shift_right_logical",
          "a moved by b bits to the right; zeros come in, for signed types too. A b below 0, or of all bits or more, "
          "gives 0.",
          shift_right_logical),
  };
}

std::vector<ElementwiseSpec> comparison_rows() {
  auto compare = [](std::string name, std::string doc, FloatFn f, IntFn g, bool commutative) {
    ElementwiseSpec spec =
        with(binary(std::move(name), std::move(doc), f, g, nullptr, nullptr), ir::not_linear(), commutative);
    spec.domain = Domain::kAny;
    spec.predicate = true;
    spec.refusal = "the result is boolean";
    return spec;
  };
  return {
      compare(
          "eq", "Whether a == b; NaN equals nothing.", +[](const double* x) -> double { return x[0] == x[1]; },
          +[](DType, const int64_t* x) -> int64_t { return x[0] == x[1]; }, true),
      compare(
          "ne", "Whether a != b; true where either is NaN.", +[](const double* x) -> double { return x[0] != x[1]; },
          +[](DType, const int64_t* x) -> int64_t { return x[0] != x[1]; }, true),
      in_sizes(compare(
                   "lt", "Whether a < b; false where either is NaN.", +[](const double* x) -> double { return x[0] < x[1]; },
                   +[](DType d, const int64_t* x) -> int64_t { return int_less(d, x[0], x[1]); }, false),
               [](const Dim& a, const Dim& b) { return is_less(a, b); }),
      compare(
          "le", "Whether a <= b; false where either is NaN.", +[](const double* x) -> double { return x[0] <= x[1]; },
          +[](DType d, const int64_t* x) -> int64_t { return !int_less(d, x[1], x[0]); }, false),
      compare(
          "gt", "Whether a > b; false where either is NaN.", +[](const double* x) -> double { return x[0] > x[1]; },
          +[](DType d, const int64_t* x) -> int64_t { return int_less(d, x[1], x[0]); }, false),
      compare(
          "ge", "Whether a >= b; false where either is NaN.", +[](const double* x) -> double { return x[0] >= x[1]; },
          +[](DType d, const int64_t* x) -> int64_t { return !int_less(d, x[0], x[1]); }, false),
  };
}

}  // namespace

std::vector<OpDef> binary_ops() {
  std::vector<OpDef> out;
  for (auto rows : {size_rows, arithmetic_rows, bit_rows, shift_rows, comparison_rows})
    for (ElementwiseSpec& spec : rows()) out.push_back(make_elementwise(std::move(spec)));
  return out;
}

}  // namespace nabla::ops
