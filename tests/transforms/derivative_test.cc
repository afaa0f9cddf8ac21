// Derivatives of whole functions: random ones against central differences in f64, modes against each other, second
// order, calls, sharing, and the texts of what is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/ops/all_ops.h"
#include "ir/target.h"
#include "ir/text.h"
#include "passes/simplify/simplify.h"
#include "passes/transform/lower_transforms.h"
#include "tests/transforms/random_function.h"

namespace nabla::transforms {
namespace {

using ir::FunctionBuilder;
using ir::FunctionRef;
using ir::Ints;
using ir::Module;
using ir::Val;

constexpr int kSeeds = 12;
constexpr double kStep = 1e-6, kTolerance = 2e-6;

ir::Type f64(ir::Shape shape = {}) { return {DType::kF64, std::move(shape)}; }
Val unary(const char* op, Val x) { return x.b->op(op, {x}); }

std::vector<Literal> moved(std::vector<Literal> args, const std::vector<Literal>& direction, double step) {
  for (size_t k = 0; k < args.size(); ++k)
    if (is_float(args[k].dtype()))
      for (int64_t i = 0; i < args[k].size(); ++i) args[k].set(i, args[k].get(i) + step * direction[k].get(i));
  return args;
}

double dot(const Literal& a, const Literal& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i) sum += a.get(i) * b.get(i);
  return sum;
}

// The derivative of floating result `r` of @f in a direction, by central differences.
Literal quotient(const Module& m, const char* f, const std::vector<Literal>& args,
                 const std::vector<Literal>& direction, size_t r, double step = kStep) {
  Literal plus = run(m, f, moved(args, direction, step))[r];
  Literal minus = run(m, f, moved(args, direction, -step))[r];
  for (int64_t i = 0; i < plus.size(); ++i) plus.set(i, (plus.get(i) - minus.get(i)) / (2 * step));
  return plus;
}

void expect_near(const Literal& expected, const Literal& got, const std::string& what, double tolerance = kTolerance) {
  ASSERT_EQ(expected.shape(), got.shape()) << what;
  double scale = 1;
  for (int64_t i = 0; i < expected.size(); ++i) scale = std::max(scale, std::fabs(expected.get(i)));
  for (int64_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(expected.get(i), got.get(i), tolerance * scale) << what << ", element " << i;
}

Module with_helper(uint64_t seed) {
  Module m;
  FunctionBuilder b("helper", ops::all_ops());
  Val x = b.param("x", f64({4, 6}));
  Val y = unary(seed % 2 ? "gelu" : "tanh", x);
  add(m, b.finish({y * y - b.op("softmax", {x}, {{"axis", int64_t{1}}})}));
  return m;
}

Module random_module(uint64_t seed, int steps = 8) {
  Module m = with_helper(seed);
  add(m, random_function("f", seed, steps, &m, "helper"));
  return m;
}

const Ints kFloating = {0, 1, 2, 3};  // x, w, v, k

TEST(Derivatives, GradientsOfRandomFunctionsAreTheirDifferenceQuotients) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Module m = random_module(seed);
    add_wrapper(m, "g", "value_and_grad", "f", {{"wrt", kFloating}});
    Module flat = flattened(m);
    auto args = random_args(*flat.find("f"), seed);
    auto out = run(flat, "g", args), direction = random_args(*flat.find("f"), seed + 100);
    ASSERT_EQ(out.size(), 6u);
    EXPECT_EQ(out[0], run(flat, "f", args)[0]) << "seed " << seed;
    for (size_t p = 0; p < 4; ++p) {
      auto one = direction;
      for (size_t q = 0; q < 5; ++q)
        if (q != p) one[q] = Literal(args[q].dtype(), args[q].shape());
      double expected = quotient(flat, "f", args, one, 0).get(0), got = dot(out[2 + p], one[p]);
      EXPECT_NEAR(expected, got, kTolerance * std::max(1.0, std::fabs(expected))) << "seed " << seed << " param " << p;
    }
  }
}

TEST(Derivatives, TangentsOfRandomFunctionsAreTheirDifferenceQuotients) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Module m = random_module(seed);
    add_wrapper(m, "push", "jvp", "f");
    Module flat = flattened(m);
    auto args = random_args(*flat.find("f"), seed), direction = random_args(*flat.find("f"), seed + 100), all = args;
    all.insert(all.end(), direction.begin(), direction.end());
    auto out = run(flat, "push", all);
    ASSERT_EQ(out.size(), 4u);
    for (size_t r = 0; r < 2; ++r)
      expect_near(quotient(flat, "f", args, direction, r), out[2 + r], fmt::format("seed {} result {}", seed, r));
  }
}

// @pull: f's parameters, a cotangent per result -> f's results, then the gradients, by an explicit pullback.
void add_pullback(Module& m, const std::string& name, const std::string& of, int times = 1) {
  FunctionBuilder b(name, ops::all_ops(), &m);
  const ir::Function& f = *m.find(of);
  std::vector<Val> args, out;
  for (ir::ValueId id : f.params) args.push_back(b.param(f.values[id].name, f.type(id)));
  out = b.add("vjp_forward", args, {{"callee", FunctionRef{of}}});
  Val residual = out.back();
  out.pop_back();
  for (int t = 0; t < times; ++t) {
    std::vector<Val> in = {residual};
    for (size_t r = 0; r < f.results.size(); ++r)
      in.push_back(b.param(fmt::format("c{}_{}", t, r), f.type(f.results[r])));
    for (Val v : b.add("vjp_backward", in, {{"callee", FunctionRef{of}}})) out.push_back(v);
  }
  add(m, b.finish(out));
}

TEST(Derivatives, PullbacksAreTheTransposesOfTangents) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Module m = random_module(seed);
    add_wrapper(m, "push", "jvp", "f");
    add_pullback(m, "pull", "f");
    Module flat = flattened(m);
    auto args = random_args(*flat.find("f"), seed), direction = random_args(*flat.find("f"), seed + 7);
    auto push_args = args, pull_args = args;
    push_args.insert(push_args.end(), direction.begin(), direction.end());
    std::vector<Literal> ct = {random_literal(f64(), seed), random_literal(f64({4, 6}), seed + 1)};
    pull_args.insert(pull_args.end(), ct.begin(), ct.end());
    auto pushed = run(flat, "push", push_args), pulled = run(flat, "pull", pull_args);
    ASSERT_EQ(pulled.size(), 7u);
    double forward = dot(pushed[2], ct[0]) + dot(pushed[3], ct[1]), backward = 0;
    for (size_t p = 0; p < 4; ++p) backward += dot(pulled[2 + p], direction[p]);
    EXPECT_NEAR(forward, backward, 1e-9 * std::max(1.0, std::fabs(forward))) << "seed " << seed;
    EXPECT_EQ(pulled[6], Literal(DType::kI32, {4})) << "integers get zeros";
  }
}

TEST(Derivatives, APullbackCanBeUsedTwiceAndItsForwardRunsOnce) {
  Module m = random_module(3, 4);
  add_pullback(m, "twice", "f", 2);
  Module lowered = apply(passes::lower_transforms, m);
  EXPECT_EQ(count_ops(lowered, "twice", "call"), 3);
  Module flat = flattened(m);
  auto args = random_args(*flat.find("twice"), 5);
  auto out = run(flat, "twice", args);
  ASSERT_EQ(out.size(), 12u);
  Module single = m;
  add_pullback(single, "once", "f");
  single = flattened(single);
  for (size_t t = 0; t < 2; ++t) {
    std::vector<Literal> own(args.begin(), args.begin() + 5);
    own.insert(own.end(), args.begin() + 5 + 2 * t, args.begin() + 7 + 2 * t);
    auto expected = run(single, "once", own);
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(expected[2 + i], out[2 + 5 * t + i]) << t << " " << i;
  }
}

TEST(Derivatives, GradientsOfGradientsAreDifferenceQuotientsOfGradients) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Module m = random_module(seed, 4);
    add_wrapper(m, "g", "grad", "f", {{"wrt", Ints{0}}});
    FunctionBuilder b("s", ops::all_ops(), &m);  // the sum of squares of the gradient
    std::vector<Val> params;
    for (ir::ValueId id : m.find("g")->params)
      params.push_back(b.param(m.find("g")->values[id].name, m.find("g")->type(id)));
    Val g = b.op("call", params, {{"callee", FunctionRef{"g"}}});
    add(m, b.finish({reduce_sum(g * g, {0, 1})}));
    add_wrapper(m, "gg", "grad", "s", {{"wrt", Ints{1, 0}}});
    Module flat = flattened(m);
    auto args = random_args(*flat.find("f"), seed), direction = random_args(*flat.find("f"), seed + 50);
    auto out = run(flat, "gg", args);
    ASSERT_EQ(out.size(), 2u);
    for (size_t p : {0, 1}) {
      auto one = direction;
      for (size_t q = 0; q < 5; ++q)
        if (q != p) one[q] = Literal(args[q].dtype(), args[q].shape());
      double expected = quotient(flat, "s", args, one, 0).get(0), got = dot(out[1 - p], one[p]);
      EXPECT_NEAR(expected, got, 1e-5 * std::max(1.0, std::fabs(expected))) << "seed " << seed << " parameter " << p;
    }
  }
}

TEST(Derivatives, TangentsOfGradientsAreHessianVectorProducts) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Module m = random_module(seed, 4);
    add_wrapper(m, "g", "grad", "f", {{"wrt", Ints{0, 1}}});
    add_wrapper(m, "hvp", "jvp", "g");
    Module flat = flattened(m);
    auto args = random_args(*flat.find("f"), seed), direction = random_args(*flat.find("f"), seed + 50), all = args;
    all.insert(all.end(), direction.begin(), direction.end());
    auto out = run(flat, "hvp", all);
    ASSERT_EQ(out.size(), 4u);
    for (size_t r = 0; r < 2; ++r)
      expect_near(quotient(flat, "g", args, direction, r), out[2 + r], fmt::format("seed {}", seed), 1e-5);
  }
}

TEST(Derivatives, ASharedSubexpressionGetsTheSumOfItsCotangents) {
  Module m;
  FunctionBuilder b("f", ops::all_ops());
  Val x = b.param("x", f64());
  Val y = x * x;
  add(m, b.finish({y * y + y}));
  add_wrapper(m, "g", "grad", "f", {{"wrt", Ints{0}}});
  EXPECT_EQ(run(flattened(m), "g", {Literal::scalar(DType::kF64, 3)})[0].get(0), 4 * 27 + 2 * 3);
}

TEST(Derivatives, AnUnusedParameterHasAZeroGradientAndNoWork) {
  Module m;
  FunctionBuilder b("f", ops::all_ops());
  Val x = b.param("x", f64()), unused = b.param("unused", f64({2, 2}));
  unary("exp", unused);
  add(m, b.finish({x * x}));
  add_wrapper(m, "g", "grad", "f", {{"wrt", Ints{1, 0}}});
  Module flat = flattened(m);
  auto out = run(flat, "g", {Literal::scalar(DType::kF64, 3), random_literal(f64({2, 2}), 1)});
  EXPECT_EQ(out[0], Literal(DType::kF64, {2, 2}));
  EXPECT_EQ(out[1].get(0), 6);
  EXPECT_EQ(count_ops(flat, "g", "exp"), 0);
}

TEST(Derivatives, InactiveOperandsCostNothing) {
  Module m;
  FunctionBuilder b("f", ops::all_ops());
  Val x = b.param("x", f64({3, 3})), w = b.param("w", f64({3, 3}));
  Val y = b.op("dot_general", {x, w}, {{"lhs_contract", Ints{1}}, {"rhs_contract", Ints{0}}});
  add(m, b.finish({reduce_sum(y, {0, 1})}));
  add_wrapper(m, "g", "grad", "f", {{"wrt", Ints{1}}});
  add_wrapper(m, "v", "value_and_grad", "f", {{"wrt", Ints{1}}});
  Module flat = flattened(m);
  EXPECT_EQ(count_ops(flat, "g", "dot_general"), 1) << "the gradient of w alone; y itself is not needed";
  EXPECT_EQ(count_ops(flat, "v", "dot_general"), 2);
}

TEST(Derivatives, OnlyResidualsThatTheWayBackUsesAreKept) {
  Module m;
  FunctionBuilder b("f", ops::all_ops());
  Val x = b.param("x", f64({3})), c = b.param("c", f64({3}));
  Val y = unary("exp", x + c);  // keeps its result only
  Val z = y * b.like(y, 2);     // linear: keeps a constant, which is made again
  add(m, b.finish({unary("neg", z)}));
  add_pullback(m, "pull", "f");
  Module lowered = apply(passes::lower_transforms, m);
  EXPECT_EQ(lowered.find("f.vjp_fwd")->results.size(), 2u) << "the result and exp(x + c)";
  EXPECT_EQ(lowered.find("f.vjp_bwd")->params.size(), 2u) << "one residual, one cotangent";
  EXPECT_EQ(count_ops(lowered, "f.vjp_bwd", "exp"), 0);
}

TEST(Derivatives, DerivedFunctionsAreMadeOncePerFunctionAndActivity) {
  Module m = with_helper(1);
  FunctionBuilder b("f", ops::all_ops(), &m);
  Val x = b.param("x", f64({4, 6}));
  Val y = x;
  for (int i = 0; i < 3; ++i) y = b.op("call", {y}, {{"callee", FunctionRef{"helper"}}});
  add(m, b.finish({reduce_sum(y, {0, 1})}));
  add_wrapper(m, "g", "grad", "f", {{"wrt", Ints{0}}});
  add_wrapper(m, "g2", "grad", "f", {{"wrt", Ints{0}}});
  Module lowered = apply(passes::lower_transforms, m);
  std::vector<std::string> expected = {"helper", "f", "g", "g2", "helper.vjp_fwd", "helper.vjp_bwd", "f.grad"};
  EXPECT_EQ(lowered.function_names(), expected);
}

TEST(Derivatives, FunctionsWithPartOfTheirParametersActiveAreNamedAfterThem) {
  Module m;
  FunctionBuilder h("h", ops::all_ops());
  Val a = h.param("a", f64()), c = h.param("c", f64());
  add(m, h.finish({unary("exp", a * c)}));
  FunctionBuilder b("f", ops::all_ops(), &m);
  Val x = b.param("x", f64()), y = b.param("y", f64());
  add(m, b.finish({b.op("call", {x, y}, {{"callee", FunctionRef{"h"}}})}));
  add_wrapper(m, "g", "grad", "f", {{"wrt", Ints{1}}});
  FunctionBuilder taken("h.vjp_bwd.01", ops::all_ops());
  add(m, taken.finish({taken.param("x", f64())}));
  Module lowered = apply(passes::lower_transforms, m);
  EXPECT_TRUE(lowered.find("h.vjp_fwd.01") && lowered.find("h.vjp_bwd.01.v2") && lowered.find("f.grad.01"));
  Literal two = Literal::scalar(DType::kF64, 2), three = Literal::scalar(DType::kF64, 3);
  EXPECT_NEAR(run(lowered, "g", {two, three})[0].get(0), 2 * std::exp(6.0), 1e-9);
}

TEST(Derivatives, SizesMayBeSymbolic) {
  Module m;
  ir::SymbolRef symbol = std::make_shared<ir::Symbol>(ir::Symbol{"n", 1, 64, 1});
  m.symbols = {symbol};
  ir::Dim n = ir::Dim::symbol(symbol);
  FunctionBuilder b("f", ops::all_ops());
  Val x = b.param("x", f64({n, 6})), w = b.param("w", f64({6, 4})), labels = b.param("labels", {DType::kI32, {n}});
  Val y = b.op("dot_general", {b.op("gelu", {x}), w}, {{"lhs_contract", Ints{1}}, {"rhs_contract", Ints{0}}});
  Val rows = reduce_sum(reshape(transpose(x, {1, 0}), {n * 6}), {0});
  add(m, b.finish({reduce_sum(b.op("cross_entropy", {y, labels}), {0}) + rows * reduce_max(w, {0, 1})}));
  add_wrapper(m, "g", "grad", "f", {{"wrt", Ints{0, 1}}});
  Module flat = apply(passes::canonicalize, flattened(m));
  for (int64_t rows_now : {1, 5}) {
    std::vector<Literal> args = {random_literal(f64({rows_now, 6}), 1), random_literal(f64({6, 4}), 2),
                                 random_literal({DType::kI32, {rows_now}}, 3)};
    std::vector<Literal> direction = {random_literal(f64({rows_now, 6}), 4), random_literal(f64({6, 4}), 5), args[2]};
    auto out = run(flat, "g", args);
    double expected = quotient(flat, "f", args, direction, 0).get(0);
    EXPECT_NEAR(expected, dot(out[0], direction[0]) + dot(out[1], direction[1]), 1e-6 * std::fabs(expected));
  }
}

TEST(Derivatives, ResidualsMayBeParameters) {
  Module m = with_helper(1);
  ir::Type residual = ir::Type::residual("helper");
  {
    FunctionBuilder b("back", ops::all_ops(), &m);
    Val r = b.param("r", residual), ct = b.param("ct", f64({4, 6}));
    add(m, b.finish({b.op("vjp_backward", {r, ct}, {{"callee", FunctionRef{"helper"}}})}));
  }
  FunctionBuilder b("main", ops::all_ops(), &m);
  Val x = b.param("x", f64({4, 6})), ct = b.param("ct", f64({4, 6}));
  Val r = b.add("vjp_forward", {x}, {{"callee", FunctionRef{"helper"}}})[1];
  add(m, b.finish({b.op("call", {r, ct}, {{"callee", FunctionRef{"back"}}})}));
  add_pullback(m, "pull", "helper");
  Module flat = flattened(m);
  Literal at = random_literal(f64({4, 6}), 1), way = random_literal(f64({4, 6}), 2);
  EXPECT_EQ(run(flat, "main", {at, way})[0], run(flat, "pull", {at, way})[1]);
  EXPECT_GT(flat.find("back")->params.size(), 1u);
}

// ---- What is refused

Diagnostics refused(const Module& m) {
  static const ir::Target target{};
  passes::PassContext context{ops::all_ops(), target};
  auto out = passes::lower_transforms(m, context);
  EXPECT_FALSE(out.ok());
  return out.ok() ? Diagnostics{} : out.errors();
}

// The sum of a step of gradient descent, which has no derivative, and of the squares of the weights.
Module with_optimizer_step(bool stopped) {
  Module m;
  FunctionBuilder b("f", ops::all_ops());
  Val x = b.param("weights", f64({3}));
  b.set_location(std::make_shared<Location>(Location{"model.cc", 14, 5, "loss", "auto y = sgd_update(...);"}));
  const ir::OpDef& op = ops::all_ops().get("sgd_update");
  std::vector<Val> operands;
  for (size_t i = 0; i < op.examples[0].operands.size(); ++i) {
    ir::Type t = op.examples[0].operands[i].type;
    operands.push_back(i == 0 ? convert(reshape(broadcast_in_dim(reduce_sum(x, {0}), t.shape, {}), t.shape), t.dtype)
                              : b.param(fmt::format("p{}", i), t));
  }
  Val y = b.add("sgd_update", operands, op.examples[0].attrs)[0];
  if (stopped) y = unary("stop_gradient", y);
  add(m, b.finish({convert(reduce_sum(y, ir::iota_ints(y.rank())), DType::kF64) + reduce_sum(x * x, {0})}));
  add_wrapper(m, "g", "grad", "f", {{"wrt", Ints{0}}});
  add_wrapper(m, "push", "jvp", "f");
  return m;
}

TEST(Refusals, AnOpWithoutADerivativeOnAnActivePathIsNamedWithItsReasonAndPlace) {
  Diagnostics errors = refused(with_optimizer_step(false));
  ASSERT_EQ(errors.size(), 1u) << to_string(errors) << "both modes refuse the same place, which is reported once";
  std::string text = errors[0].str();
  EXPECT_EQ(errors[0].code, Code::kNotDifferentiable);
  EXPECT_NE(text.find("sgd_update cannot be differentiated: " + ops::all_ops().get("sgd_update").vjp.reason()),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("model.cc:14"), std::string::npos) << text;
  EXPECT_NE(text.find("in the derivative of @f"), std::string::npos) << text;
}

TEST(Refusals, StopGradientMakesTheSamePathLegal) {
  Module flat = flattened(with_optimizer_step(true));
  ASSERT_TRUE(flat.find("g"));
  auto args = random_args(*flat.find("g"), 1);
  Literal g = run(flat, "g", args)[0];
  auto tangent_args = args;
  tangent_args.insert(tangent_args.end(), args.begin(), args.end());
  EXPECT_NEAR(run(flat, "push", tangent_args)[1].get(0), dot(g, args[0]), 1e-12);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(g.get(i), 2 * args[0].get(i));
}

// A loop of so many steps as only running it tells, whose state depends on no active value.
TEST(Refusals, WhatStartsFromAStoppedValueIsAConstant) {
  Module m = ir::parse_module(R"(nabla 1 traced
func @go(%x: f64[]) {
  %ten = constant() {value=f64[] {10}}
  %b = lt(%x, %ten)
  return %b
}
func @twice(%x: f64[]) {
  %y = add(%x, %x)
  return %y
}
func @f(%x: f64[]) {
  %s = stop_gradient(%x)
  %n = while(%s) {cond=@go, body=@twice}
  %y = mul(%x, %n)
  return %y
}
func @g(%x: f64[]) {
  %dx = grad(%x) {callee=@f, wrt=[0]}
  return %dx
}
)", "test.nbl", ops::all_ops()).value();
  add_wrapper(m, "push", "jvp", "f");
  Module flat = flattened(m);
  Literal x = Literal::scalar(DType::kF64, 1.5);
  EXPECT_EQ(run(flat, "g", {x})[0].get(0), 12);
  EXPECT_EQ(run(flat, "push", {x, x})[1].get(0), 18);
}

TEST(Refusals, AFunctionThatCallsItselfIsShownWithThePath) {
  Module m;
  for (auto [name, callee] : {std::pair{"a", "b"}, {"b", "a"}}) {
    Module known;
    FunctionBuilder stub(callee, ops::all_ops());
    add(known, stub.finish({stub.param("x", f64())}));
    FunctionBuilder b(name, ops::all_ops(), &known);
    add(m, b.finish({b.op("call", {b.param("x", f64())}, {{"callee", FunctionRef{callee}}})}));
  }
  Diagnostics errors = refused(m);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].code, Code::kRecursion);
  EXPECT_EQ(errors[0].message, "@a calls itself: @a -> @b -> @a");
}

TEST(Refusals, AnUnknownFunctionIsReportedWithTheNearestName) {
  Module m;
  Module known = with_helper(1);
  FunctionBuilder b("main", ops::all_ops(), &known);
  add(m, b.finish({b.op("call", {b.param("x", f64({4, 6}))}, {{"callee", FunctionRef{"helper"}}})}));
  FunctionBuilder other("helpre", ops::all_ops());
  add(m, other.finish({other.param("x", f64())}));
  Diagnostics errors = refused(m);
  EXPECT_EQ(errors[0].code, Code::kUnknownName);
  EXPECT_NE(errors[0].message.find("did you mean `helpre`"), std::string::npos) << errors[0].message;
}

}  // namespace
}  // namespace nabla::transforms
