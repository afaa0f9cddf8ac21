// Are the derivative rules right? In f64, against central differences, against each other, and once more on the
// functions that the rules make.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "tests/property/compare.h"
#include "tests/property/driver.h"
#include "tests/property/fixture.h"

namespace nabla::property {
namespace {

class DerivativeRules : public OpProperty {};

// Central differences with step h have an error of h^2 |f'''| / 6 + 1e-16 |f| / h, about 1e-10 here.
constexpr double kStep = 1e-5;
constexpr double kTolerance = 2e-6;

std::vector<Literal> random_like(const std::vector<Literal>& values, ir::Rng& rng) {
  std::vector<Literal> out;
  for (const Literal& v : values)
    out.push_back(draw_literal({{v.dtype(), ir::static_shape(v.shape())}, {-1, 1}}, rng, false));
  return out;
}

// args + step * direction on the floating arguments.
std::vector<Literal> moved(const std::vector<Literal>& args, const std::vector<Literal>& direction, double step) {
  std::vector<Literal> out = args;
  size_t next = 0;
  for (Literal& v : out) {
    if (!is_float(v.dtype())) continue;
    const Literal& t = direction[next++];
    for (int64_t i = 0; i < v.size(); ++i) v.set(i, v.get(i) + step * t.get(i));
  }
  return out;
}

std::vector<Literal> difference_quotient(const Program& f, const std::vector<Literal>& args,
                                         const std::vector<Literal>& direction, double step) {
  std::vector<Literal> plus = floating(run(f, moved(args, direction, step)));
  std::vector<Literal> minus = floating(run(f, moved(args, direction, -step)));
  for (size_t k = 0; k < plus.size(); ++k)
    for (int64_t i = 0; i < plus[k].size(); ++i) {
      bool constant = plus[k].get(i) == minus[k].get(i);  // infinities too: the maximum of no elements
      plus[k].set(i, constant ? 0 : (plus[k].get(i) - minus[k].get(i)) / (2 * step));
    }
  return plus;
}

std::vector<Literal> joined(std::vector<Literal> a, const std::vector<Literal>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Results that vanish are compared with 1: their differences are rounding errors of the function's values.
std::optional<std::string> far(const std::vector<Literal>& expected, const std::vector<Literal>& got) {
  if (expected.size() != got.size()) return fmt::format("expected {} tensors, got {}", expected.size(), got.size());
  for (size_t k = 0; k < expected.size(); ++k) {
    double scale = 1;
    for (int64_t i = 0; i < expected[k].size(); ++i) scale = std::max(scale, std::fabs(expected[k].get(i)));
    for (int64_t i = 0; i < expected[k].size(); ++i)
      if (!(std::fabs(expected[k].get(i) - got[k].get(i)) <= kTolerance * scale))
        return fmt::format("tensor {} element {}: expected {}, got {}", k, i, expected[k].get(i), got[k].get(i));
  }
  return std::nullopt;
}

// The derivative of f's floating results at `args` along `direction`. Nothing where half the step gives something
// else: there is a jump or a kink of f in between, and no rule is asked for a derivative.
std::optional<std::vector<Literal>> central_difference(const Program& f, const std::vector<Literal>& args,
                                                       const std::vector<Literal>& direction) {
  std::vector<Literal> out = difference_quotient(f, args, direction, kStep);
  if (far(out, difference_quotient(f, args, direction, kStep / 2))) return std::nullopt;
  return out;
}

bool defines_its_own(const ir::OpDef& op) { return op.category == "autodiff"; }

// Cases at which the function is a number: elsewhere (an unknown label) no derivative exists.
std::vector<Case> smooth_cases(const ir::OpDef& op, int draws) {
  std::vector<Case> out;
  for (Case& c : cases_of(op, draws, Precision::kF64Only)) {
    bool number = c.module.functions.empty() || !floating(c.values(false)).empty();  // autodiff wants an active operand
    for (const Literal& y : floating(run_reference(c.typed(), c.values(false), c.module)))
      for (int64_t i = 0; i < y.size(); ++i) number = number && !std::isnan(y.get(i));
    if (number) out.push_back(std::move(c));
  }
  EXPECT_FALSE(out.empty()) << "every case gives NaN";
  return out;
}

TEST_P(DerivativeRules, JvpIsTheCentralDifference) {
  if (op().jvp.refused() || defines_its_own(op())) return;
  int compared = 0;
  for (const Case& c : smooth_cases(op(), 40)) {
    Program f = single(c);
    Derived jvp = forward_mode(f);
    ASSERT_EQ(jvp.refusal, "") << c.str();
    ir::Rng rng(c.seed + 1);
    std::vector<Literal> args = c.values(false), direction = random_like(floating(args), rng);
    auto expected = central_difference(f, args, direction);
    if (!expected) continue;
    ++compared;
    auto text = far(*expected, run(jvp.function, joined(args, direction)));
    ASSERT_FALSE(text) << c.str() << ": " << *text;
  }
  EXPECT_GE(compared, 3) << "hardly any case is smooth";
}

TEST_P(DerivativeRules, VjpIsTheTransposeOfTheCentralDifference) {
  if (op().vjp.refused() || defines_its_own(op())) return;
  int compared = 0;
  for (const Case& c : smooth_cases(op(), 40)) {
    Program f = single(c);
    Derived vjp = reverse_mode(f);
    ASSERT_EQ(vjp.refusal, "") << c.str();
    ir::Rng rng(c.seed + 2);
    std::vector<Literal> args = c.values(false);
    std::vector<Literal> cotangents = random_like(floating(run(f, args)), rng);
    std::vector<Literal> gradients = run(vjp.function, joined(args, cotangents));
    // Three directions: an error in one element may not hide behind another.
    for (int i = 0; i < 3; ++i) {
      std::vector<Literal> direction = random_like(floating(args), rng);
      auto difference = central_difference(f, args, direction);
      if (!difference) continue;
      ++compared;
      double expected = inner_product(cotangents, *difference);
      double got = inner_product(gradients, direction);
      double size = std::sqrt(inner_product(gradients, gradients) * inner_product(direction, direction));
      ASSERT_LE(std::fabs(expected - got), kTolerance * std::max(1.0, size))
          << c.str() << ": expected " << expected << ", got " << got;
    }
  }
  EXPECT_GE(compared, 3) << "hardly any case is smooth";
}

TEST_P(DerivativeRules, JvpAndVjpAreTransposes) {
  if (op().vjp.refused() || op().jvp.refused()) return;
  for (const Case& c : smooth_cases(op(), 40)) {
    Program f = single(c);
    Derived jvp = forward_mode(f), vjp = reverse_mode(f);
    ASSERT_EQ(jvp.refusal + vjp.refusal, "") << c.str();
    ir::Rng rng(c.seed + 3);
    std::vector<Literal> args = c.values(false), direction = random_like(floating(args), rng);
    std::vector<Literal> tangents = run(jvp.function, joined(args, direction));
    std::vector<Literal> cotangents = random_like(tangents, rng);
    double forward = inner_product(cotangents, tangents);
    double backward = inner_product(run(vjp.function, joined(args, cotangents)), direction);
    ASSERT_LE(std::fabs(forward - backward), 1e-10 * std::max(1.0, std::sqrt(inner_product(tangents, tangents))))
        << c.str();
  }
}

TEST_P(DerivativeRules, TheVjpFunctionIsDifferentiableAgain) {
  if (op().vjp.refused() || defines_its_own(op())) return;
  int compared = 0;
  for (const Case& c : smooth_cases(op(), 20)) {
    Derived vjp = reverse_mode(single(c));
    ASSERT_EQ(vjp.refusal, "") << c.str();
    Derived second = forward_mode(vjp.function);
    ASSERT_EQ(second.refusal, "") << c.str();
    ir::Rng rng(c.seed + 4);
    std::vector<Literal> args = c.values(false);
    args = joined(args, random_like(floating(run(single(c), args)), rng));
    std::vector<Literal> direction = random_like(floating(args), rng);
    std::vector<Literal> tangents = run(second.function, joined(args, direction));
    if (auto expected = central_difference(vjp.function, args, direction)) {
      ++compared;
      auto text = far(*expected, tangents);
      ASSERT_FALSE(text) << c.str() << ": " << *text;
    }
    Derived reverse = reverse_mode(vjp.function);
    ASSERT_EQ(reverse.refusal, "") << c.str();
    std::vector<Literal> cotangents = random_like(tangents, rng);
    double forward = inner_product(cotangents, tangents);
    double backward = inner_product(run(reverse.function, joined(args, cotangents)), direction);
    ASSERT_LE(std::fabs(forward - backward), 1e-9 * std::max(1.0, std::fabs(forward))) << c.str();
  }
  EXPECT_GE(compared, 3) << "hardly any case is smooth";
}

INSTANTIATE_TEST_SUITE_P(Ops, DerivativeRules, ::testing::ValuesIn(covered_ops()), param_name);

}  // namespace
}  // namespace nabla::property
