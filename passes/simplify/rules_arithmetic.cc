// Rules about the elements' arithmetic. The replacement is equal for every input, NaN, infinities and the signs of zeros included.
#include <algorithm>
#include <cmath>

#include "passes/simplify/rules.h"

namespace nabla::passes {
namespace {

using ir::Node;
using ir::Val;
using Vals = std::vector<Val>;

// Whether v is the integer 0, or the float zero of this sign.
bool is_zero(const Candidate& c, Val v, bool negative) {
  if (!c.is_number(v, 0)) return false;
  return !is_float(v.dtype()) || std::signbit(c.number(v)->get(0)) == negative;
}

// -0 + 0 is 0, but x + -0 is x.
Replacement add_zero(const Candidate& c) {
  for (int i : {0, 1})
    if (is_zero(c, c.operand(i), true)) return Vals{c.operand(1 - i)};
  return std::nullopt;
}

// -0 - -0 is 0.
Replacement sub_zero(const Candidate& c) {
  if (!is_zero(c, c.operand(1), false)) return std::nullopt;
  return Vals{c.operand(0)};
}

Replacement mul_one(const Candidate& c) {
  for (int i : {0, 1})
    if (c.is_number(c.operand(i), 1)) return Vals{c.operand(1 - i)};
  return std::nullopt;
}

Replacement integer_mul_zero(const Candidate& c) {
  if (is_float(c.operand(0).dtype())) return std::nullopt;  // NaN * 0 and inf * 0 are NaN
  for (int i : {0, 1})
    if (c.is_number(c.operand(i), 0)) return Vals{c.operand(i)};
  return std::nullopt;
}

Replacement div_one(const Candidate& c) {
  if (!c.is_number(c.operand(1), 1)) return std::nullopt;
  return Vals{c.operand(0)};
}

Replacement div_power_of_two(const Candidate& c) {
  DType dtype = c.operand(1).dtype();
  std::optional<Literal> n = c.number(c.operand(1));
  if (!n || !is_float(dtype)) return std::nullopt;
  double divisor = n->get(0), inverse = 1 / divisor;
  int exponent = 0;
  bool power = std::isfinite(divisor) && divisor != 0 && std::fabs(std::frexp(divisor, &exponent)) == 0.5;
  // Both the divisor and its inverse must be exact in the dtype; then both ways round the same number.
  if (!power || round_to(dtype, inverse) != inverse || std::abs(exponent) > 1000) return std::nullopt;
  return Vals{c.operand(0) * c.b.like(c.operand(1), inverse)};
}

Replacement mul_minus_one(const Candidate& c) {
  if (is_unsigned(c.operand(0).dtype())) return std::nullopt;
  for (int i : {0, 1})
    if (c.is_number(c.operand(i), -1)) return Vals{-c.operand(1 - i)};
  return std::nullopt;
}

Replacement add_negated(const Candidate& c) {
  for (int i : {1, 0})
    if (const Node* neg = c.made_by(c.operand(i), "neg")) return Vals{c.operand(1 - i) - c.operand_of(*neg)};
  return std::nullopt;
}

Replacement sub_negated(const Candidate& c) {
  const Node* neg = c.made_by(c.operand(1), "neg");
  if (!neg) return std::nullopt;
  return Vals{c.operand(0) + c.operand_of(*neg)};
}

Replacement twice(const Candidate& c) {
  const Node* inner = c.made_by(c.operand(0), c.op.name);
  if (!inner) return std::nullopt;
  return Vals{c.operand_of(*inner)};
}

Replacement pow_small(const Candidate& c) {
  Val x = c.operand(0);
  if (c.is_number(c.operand(1), 1)) return Vals{x};
  if (c.is_number(c.operand(1), 2)) return Vals{x * x};
  // One more product would round once more than a single power does.
  bool rounds_little = !is_float(x.dtype()) || bytes_of(x.dtype()) >= 4;
  if (rounds_little && c.is_number(c.operand(1), 3)) return Vals{x * x * x};
  return std::nullopt;
}

Replacement select_known(const Candidate& c) {
  std::optional<Literal> n = c.number(c.operand(0));
  if (!n) return std::nullopt;
  return Vals{n->get_i(0) ? c.operand(1) : c.operand(2)};
}

Replacement select_same(const Candidate& c) {
  if (c.operand(1).id != c.operand(2).id) return std::nullopt;
  return Vals{c.operand(1)};
}

Replacement convert_same(const Candidate& c) {
  if (c.operand(0).dtype() != c.attrs.get_dtype("dtype")) return std::nullopt;
  return Vals{c.operand(0)};
}

// Does `wide` hold every value of `narrow`, and is what a further conversion makes of it the same?
bool widens(DType narrow, DType wide) {
  if (narrow == DType::kBool) return true;
  if (is_float(narrow) && is_float(wide)) {
    if (wide == DType::kF64) return true;
    return wide == DType::kF32 && is_narrow_float(narrow);
  }
  if (!is_integer(narrow) || !is_integer(wide)) return false;
  if (bytes_of(wide) <= bytes_of(narrow)) return false;
  return is_signed(wide) || is_unsigned(narrow);
}

Replacement convert_of_widening(const Candidate& c) {
  const Node* inner = c.made_by(c.operand(0), "convert");
  if (!inner) return std::nullopt;
  Val x = c.operand_of(*inner);
  if (!widens(x.dtype(), c.operand(0).dtype())) return std::nullopt;
  return Vals{convert(x, c.attrs.get_dtype("dtype"))};
}

Replacement its_operand(const Candidate& c) { return Vals{c.operand(0)}; }

Replacement constant_to_the_right(const Candidate& c) {
  if (!c.number(c.operand(0)) || c.number(c.operand(1))) return std::nullopt;
  return Vals{c.b.op(c.op.name, {c.operand(1), c.operand(0)}, c.attrs)};
}

// Values that repeat a scalar are computed once, and constants among them can be folded.
Replacement scalar_elementwise(const Candidate& c) {
  if (!c.op.traits.elementwise || c.operands.empty()) return std::nullopt;
  Vals scalars;
  const ir::Shape* shape = nullptr;
  for (Val v : c.operands) {
    std::optional<Val> scalar = c.repeated_scalar(v);
    if (!scalar) return std::nullopt;
    if (v.rank() > 0 && !shape) shape = &v.shape();
    scalars.push_back(*scalar);
  }
  if (!shape) return std::nullopt;
  ir::Shape target = *shape;
  Vals out;
  for (Val v : c.b.add(c.op.name, scalars, c.attrs)) out.push_back(broadcast_in_dim(v, target, {}));
  return out;
}

}  // namespace

std::vector<Rule> arithmetic_rules() {
  return {
      {"add-zero", "x + 0 -> x for integers, x + -0 -> x for floats, where -0 + 0 is 0", {"add"}, add_zero},
      {"sub-zero", "x - 0 -> x; for floats not x - -0", {"sub"}, sub_zero},
      {"mul-one", "x * 1 -> x", {"mul"}, mul_one},
      {"integer-mul-zero", "x * 0 -> 0 for integers; not for floats, where x may be NaN", {"mul"}, integer_mul_zero},
      {"mul-minus-one", "x * -1 -> -x, except for unsigned integers", {"mul"}, mul_minus_one},
      {"div-one", "x / 1 -> x", {"div"}, div_one},
      {"div-power-of-two", "x / 2^k -> x * 2^-k for floats that hold 2^-k", {"div"}, div_power_of_two},
      {"add-negated", "x + -y -> x - y", {"add"}, add_negated},
      {"sub-negated", "x - -y -> x + y", {"sub"}, sub_negated},
      {"double-negation", "-(-x) -> x, not not x -> x", {"neg", "not"}, twice},
      {"small-power", "x^1 -> x, x^2 -> x*x, x^3 -> x*x*x; the last not for 8- and 16-bit floats", {"pow"}, pow_small},
      {"select-known", "select(true, x, y) -> x, select(false, x, y) -> y", {"select"}, select_known},
      {"select-same", "select(p, x, x) -> x", {"select"}, select_same},
      {"convert-same", "convert(x) to x's own dtype -> x", {"convert"}, convert_same},
      {"convert-of-widening",
       "convert(convert(x)) -> convert(x), where the inner one loses nothing",
       {"convert"},
       convert_of_widening},
      {"stop-gradient", "stop_gradient(x) -> x, after differentiation", {"stop_gradient"}, its_operand},
      {"checkpoint-name", "checkpoint_name(x) -> x, after differentiation", {"checkpoint_name"}, its_operand},
      {"constant-to-the-right",
       "2 + x -> x + 2 for commutative ops",
       {"add", "mul", "maximum", "minimum"},
       constant_to_the_right},
      {"scalar-elementwise",
       "f(broadcast(a), broadcast(b)) -> broadcast(f(a, b)) for scalars a, b",
       {},
       scalar_elementwise},
  };
}

}  // namespace nabla::passes
