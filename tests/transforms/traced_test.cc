// Transforms and control flow as users write them in C++: traced, lowered, run by the interpreter.
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/cpp/control_flow.h"
#include "frontend/cpp/convenience.h"
#include "frontend/cpp/custom_rules.h"
#include "frontend/cpp/nn.h"
#include "frontend/cpp/transforms.h"
#include "ir/ops/all_ops.h"
#include "ir/target.h"
#include "passes/simplify/simplify.h"
#include "passes/transform/lower_transforms.h"
#include "tests/transforms/random_function.h"

namespace nabla::transforms {
namespace {

using std::pair;
using std::tuple;
using Numbers = std::vector<double>;

Literal array(std::vector<int64_t> shape, Numbers values) {
  Literal out(DType::kF64, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, values[i]);
  return out;
}
Literal vec(Numbers values) { return array({static_cast<int64_t>(values.size())}, values); }
Literal number(double x) { return Literal::scalar(DType::kF64, x); }

// Results of f on these arguments, each as a list.
template <class F, size_t... I>
std::vector<Literal> results_of(F f, const std::vector<Literal>& args, std::index_sequence<I...>) {
  auto traced = trace("f", f, Spec(args[I].dtype(), ir::static_shape(args[I].shape()))...);
  return run(flattened(traced.module()), "f", args);
}
template <class... L, class F>
std::vector<Literal> eval(F f, const L&... args) {
  return results_of(f, {args...}, std::index_sequence_for<L...>{});
}
Numbers numbers(const Literal& x) {
  Numbers out;
  for (int64_t i = 0; i < x.size(); ++i) out.push_back(x.get(i));
  return out;
}
void expect_numbers(const Literal& got, Numbers expected, double tolerance = 1e-12) {
  ASSERT_EQ(static_cast<size_t>(got.size()), expected.size()) << got.str();
  for (int64_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got.get(i), expected[i], tolerance) << got.str();
}
ir::Module simplified(const ir::Module& flat) {
  ir::Module out = apply(passes::canonicalize, apply(passes::eliminate_dead_code, flat));
  out = apply(passes::merge_common_subexpressions, apply(passes::fold_constants, out));
  return apply(passes::eliminate_dead_code, out);
}
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// ---- Control flow

TEST(Traced, CondTakesClosedOverValuesOfEitherBranchAsOperands) {
  auto f = [](Tensor x, Tensor a, Tensor b) {
    return cond(
        sum(x) > 0, [&](Tensor v) { return v * a; }, [&](Tensor v) { return v + b * a; }, x);
  };
  EXPECT_EQ(numbers(eval(f, vec({1, 2}), number(3), number(4))[0]), (Numbers{3, 6}));
  EXPECT_EQ(numbers(eval(f, vec({-1, -2}), number(3), number(4))[0]), (Numbers{11, 10}));
  auto g = [&](Tensor x, Tensor a, Tensor b) {
    auto loss = [&](Tensor p) { return sum(f(x, p, b)); };
    return grad(loss)(a);
  };
  EXPECT_EQ(numbers(eval(g, vec({1, 2}), number(3), number(4))[0]), (Numbers{3}));
  EXPECT_EQ(numbers(eval(g, vec({-1, -2}), number(3), number(4))[0]), (Numbers{8}));
}

TEST(Traced, SwitchRunsOneOfSeveral) {
  auto f = [](Tensor x, Tensor i) {
    auto square = [](Tensor v) { return v * v; };
    auto plus = [&](Tensor v) { return v + x; };
    return switch_(convert(i, i32), tuple{square, plus, [](Tensor v) { return -v; }}, x);
  };
  for (auto [index, expected] : {pair{-5.0, 9.0}, {0.0, 9.0}, {1.0, 6.0}, {2.0, -3.0}, {7.0, -3.0}})
    EXPECT_EQ(numbers(eval(f, number(3), number(index))[0]), Numbers{expected}) << index;
}

TEST(Traced, WhileKeepsTheStructureOfItsState) {
  auto collatz = [](Tensor start) {
    nn::Affine<Tensor> state{start, start * 0};
    auto out = while_loop([](const nn::Affine<Tensor>& s) { return s.w > 1; },
                          [](const nn::Affine<Tensor>& s) {
                            Tensor odd = s.w % 2;
                            return nn::Affine<Tensor>{odd * (s.w * 3 + 1) + (1 - odd) * s.w / 2, s.b + 1};
                          },
                          state);
    return pair(out.w, out.b);
  };
  auto out = eval(collatz, number(6));
  EXPECT_EQ(numbers(out[1]), Numbers{8});
  // In a batch every example has its own number of steps.
  auto batched = [&](Tensor xs) { return vmap(collatz)(xs).second; };
  EXPECT_EQ(numbers(eval(batched, vec({6, 1, 7, 2}))[0]), (Numbers{8, 0, 16, 1}));
}

TEST(Traced, ForiLoopHasAGradient) {
  auto power = [](Tensor x) {
    return fori_loop(
        0, 5, [&](Tensor, Tensor p) { return p * x; }, ones({}, f64));
  };
  EXPECT_EQ(numbers(eval(power, number(2))[0]), Numbers{32});
  EXPECT_EQ(numbers(eval([&](Tensor x) { return grad(power)(x); }, number(2))[0]), Numbers{80});
  EXPECT_EQ(numbers(eval([&](Tensor x) { return grad(grad(power))(x); }, number(2))[0]), Numbers{160});
}

TEST(Traced, ScanIsALoopAndIsTracedOnce) {
  int traces = 0;
  auto cell = [&](Tensor w, Tensor xs) {
    auto body = [&](Tensor h, Tensor x) {
      ++traces;
      Tensor next = tanh(h * w + x);
      return pair(next, pair(next, x * 2));
    };
    auto [last, ys] = scan(body, zeros({}, f64), xs);
    return tuple(last, ys.first, ys.second);
  };
  auto out = eval(cell, number(0.5), vec({0.1, 0.2, 0.3}));
  EXPECT_EQ(traces, 1);
  double h1 = std::tanh(0.1), h2 = std::tanh(h1 / 2 + 0.2), h3 = std::tanh(h2 / 2 + 0.3);
  expect_numbers(out[0], {h3});
  expect_numbers(out[1], {h1, h2, h3});
  expect_numbers(out[2], {0.2, 0.4, 0.6});
}

TEST(Traced, ScanBackwardsAndWithoutSequences) {
  auto sums = [](Tensor xs) {
    auto body = [](Tensor s, Tensor x) { return pair(s + x, s + x); };
    return scan(body, zeros({}, f64), xs, {.reverse = true}).second;
  };
  EXPECT_EQ(numbers(eval(sums, vec({1, 2, 3}))[0]), (Numbers{6, 5, 3}));
  auto doubled = [](Tensor x) {
    auto body = [](Tensor v, const tuple<>&) { return pair(v * 2, v); };
    return scan(body, x, tuple<>(), {.length = ir::Dim(4)});
  };
  auto out = eval(doubled, number(1));
  EXPECT_EQ(numbers(out[0]), Numbers{16});
  EXPECT_EQ(numbers(out[1]), (Numbers{1, 2, 4, 8}));
  auto squares = [](Tensor xs) { return map([](Tensor x) { return x * x; }, xs); };
  EXPECT_EQ(numbers(eval(squares, vec({1, 2, 3}))[0]), (Numbers{1, 4, 9}));
}

TEST(Traced, TheBackwardScanStacksNothingThatDoesNotVary) {
  auto traced = trace(
      "f",
      [](Tensor w, Tensor xs) {
        auto loss = [&](Tensor p) {
          // exp(p) is the same in every iteration, and xs are there already: neither is stacked.
          auto body = [&](Tensor h, Tensor x) { return pair(h + exp(p) * x, tuple<>()); };
          return scan(body, zeros({}, f64), xs).first;
        };
        return grad(loss)(w);
      },
      Spec(f64, {}), Spec(f64, {7}));
  ir::Module flat = simplified(flattened(traced.module()));
  for (const ir::Node& n : flat.find("f")->nodes)
    for (ir::ValueId id : n.results)
      if (n.op->name == "scan") {
        EXPECT_EQ(flat.find("f")->type(id).rank(), 0) << "a stacked result";
      }
  expect_numbers(run(flat, "f", {number(0.5), vec({1, 2, 3, 4, 5, 6, 7})})[0], {28 * std::exp(0.5)});
}

TEST(Traced, LoopsMayHaveSymbolicLengths) {
  ir::SymbolRef n = std::make_shared<ir::Symbol>(ir::Symbol{"n", 1, 64, 1});
  auto traced = trace(
      "f",
      [](Tensor w, Tensor xs) {
        auto loss = [&](Tensor p) {
          auto body = [&](Tensor h, Tensor x) { return pair(sin(h * p + x), h); };
          return scan(body, zeros({}, f64), xs).first;
        };
        return grad(loss)(w);
      },
      Spec(f64, {}), Spec(f64, {ir::Dim::symbol(n)}));
  ir::Module m = traced.module();
  m.symbols = {n};
  ir::Module flat = flattened(m);
  auto value = [](double w, const Numbers& xs) {
    double h = 0;
    for (double x : xs) h = std::sin(h * w + x);
    return h;
  };
  for (const Numbers& xs : {Numbers{0.3}, Numbers{0.1, 0.5, 0.2, 0.7}})
    expect_numbers(run(flat, "f", {number(0.7), vec(xs)})[0], {(value(0.7 + 1e-6, xs) - value(0.7 - 1e-6, xs)) / 2e-6},
                   1e-8);
}

TEST(Traced, ReverseModeOfAWhileWithoutATripCountIsRefusedInWords) {
  auto traced = trace(
      "f",
      [](Tensor x) {
        auto loss = [](Tensor v) {
          return while_loop([](Tensor s) { return s < 10; }, [](Tensor s) { return s * 2; }, v);
        };
        return grad(loss)(x);
      },
      Spec(f64, {}));
  static const ir::Target target{};
  passes::PassContext context{ops::all_ops(), target};
  auto out = passes::lower_transforms(traced.module(), context);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.errors()[0].code, Code::kNotDifferentiable);
  EXPECT_NE(out.errors()[0].message.find("known only at run time; give it a trip_count"), std::string::npos);
  EXPECT_NE(out.errors()[0].str().find("traced_test.cc"), std::string::npos);
}

// ---- vmap

TEST(Traced, VmapMapsTheAxesItIsTold) {
  auto scaled = [](Tensor x, Tensor w) { return pair(x * w, w + 1); };
  auto f = [&](Tensor x, Tensor w) {
    return vmap(scaled, {.in_axes = {-1, unmapped}, .out_axes = {1, unmapped}})(x, w);
  };
  auto out = eval(f, array({2, 3}, {1, 2, 3, 4, 5, 6}), vec({10, 100}));
  EXPECT_EQ(out[0].shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(numbers(out[0]), (Numbers{10, 20, 30, 400, 500, 600}));
  EXPECT_EQ(numbers(out[1]), (Numbers{11, 101}));
}

TEST(Traced, VmapNestsAndSeesClosedOverValuesUnmapped) {
  auto outer = [](Tensor a, Tensor b, Tensor c) {
    return vmap([&](Tensor x) { return vmap([&](Tensor y) { return x * y + c; })(b); })(a);
  };
  EXPECT_EQ(numbers(eval(outer, vec({1, 2}), vec({3, 4, 5}), number(1))[0]), (Numbers{4, 5, 6, 7, 9, 11}));
}

TEST(Traced, VmapOfGradIsAGradientPerExample) {
  auto loss = [](Tensor w, Tensor x) { return sum(sin(w * x)); };
  auto f = [&](Tensor w, Tensor xs) { return vmap(grad(loss), {.in_axes = {unmapped, 0}})(w, xs); };
  auto out = eval(f, vec({0.5, 2}), array({2, 2}, {1, 2, 3, 4}));
  auto g = [](double w, double x) { return std::cos(w * x) * x; };
  expect_numbers(out[0], {g(0.5, 1), g(2, 2), g(0.5, 3), g(2, 4)});
}

TEST(Traced, GradOfVmapSumsOverTheExamples) {
  auto f = [](Tensor w, Tensor xs) {
    auto loss = [&](Tensor p) { return sum(vmap([&](Tensor x) { return p * x * x; })(xs)); };
    return grad(loss)(w);
  };
  EXPECT_EQ(numbers(eval(f, number(3), vec({1, 2, 3}))[0]), Numbers{14});
}

TEST(Traced, VmapOfNothingMappedNeedsASize) {
  auto f = [](Tensor x) {
    return vmap([](Tensor v) { return v * 2; }, {.in_axes = {unmapped}, .axis_size = ir::Dim(3)})(x);
  };
  EXPECT_EQ(numbers(eval(f, number(2))[0]), (Numbers{4, 4, 4}));
  auto bad = [](Tensor x) { return vmap([](Tensor v) { return v * 2; }, {.in_axes = {unmapped}})(x); };
  EXPECT_NE(error_of([&] { trace("f", bad, Spec(f64, {})); }).find("no operand is mapped and size is not given (C4)"),
            std::string::npos);
  auto axes = [](Tensor x, Tensor y) { return vmap([](Tensor a, Tensor b) { return a * b; })(x, y); };
  EXPECT_NE(
      error_of([&] { trace("f", axes, Spec(f64, {2}), Spec(f64, {3})); }).find("mapped dimensions differ: 3 vs 2"),
      std::string::npos);
}

TEST(Traced, VmapOverAMeshAxisNeedsAMesh) {
  auto f = [](Tensor x) { return vmap([](Tensor v) { return v * 2; }, {.spmd_axis_name = "data"})(x); };
  std::string text = error_of([&] { trace("f", f, Spec(f64, {3})); });
  EXPECT_NE(text.find("error[E0210]: vmap: spmd_axis_name is \"data\", and the program has no mesh"), std::string::npos) << text;
  EXPECT_NE(text.find("traced_test.cc"), std::string::npos) << text;
}

TEST(Traced, AResultThatDependsOnTheExampleMustHaveABatchDimension) {
  auto traced = trace(
      "f", [](Tensor x) { return vmap([](Tensor v) { return v * 2; }, {.out_axes = {unmapped}})(x); }, Spec(f64, {3}));
  static const ir::Target target{};
  passes::PassContext context{ops::all_ops(), target};
  auto out = passes::lower_transforms(traced.module(), context);
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.errors()[0].message.find("result 0 of @f_fn depends on the example"), std::string::npos);
}

// ---- linearize, Jacobians, Hessians

const Literal kPoint = vec({0.3, -0.7, 0.5});
Tensor curve(Tensor x) { return sin(x) * sum(x * x); }

TEST(Traced, LinearizeIsTheTangentAndMayBeUsedTwice) {
  auto both = [](Tensor x, Tensor t) {
    auto [y, linear] = linearize(curve, x);
    Tensor u = linear(t), v = linear(t * 2);
    auto [same, tangent] = jvp(curve, x, t);
    return tuple(y - same, u - tangent, v - tangent * 2);
  };
  for (const Literal& zero : eval(both, kPoint, vec({1, 2, -1}))) expect_numbers(zero, {0, 0, 0});
}

TEST(Traced, JacobiansAgreeInBothModes) {
  auto out = eval([](Tensor x) { return pair(jacfwd(curve)(x), jacrev(curve)(x)); }, kPoint);
  EXPECT_EQ(out[0].shape(), (std::vector<int64_t>{3, 3}));
  double square = 0.09 + 0.49 + 0.25;
  Numbers x = numbers(kPoint), expected;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) expected.push_back((i == j ? std::cos(x[i]) * square : 0) + std::sin(x[i]) * 2 * x[j]);
  expect_numbers(out[0], expected);
  expect_numbers(out[1], expected);
}

TEST(Traced, JacobiansOfOneArgumentOfSeveralAndOfTrees) {
  auto f = [](Tensor a, Tensor b) { return pair(a * b, sum(a)); };
  auto of_b = [&](Tensor a, Tensor b) { return jacfwd(f, wrt<1>)(a, b); };
  auto out = eval(of_b, vec({1, 2}), vec({3, 4}));
  EXPECT_EQ(numbers(out[0]), (Numbers{1, 0, 0, 2}));
  EXPECT_EQ(numbers(out[1]), (Numbers{0, 0}));
}

TEST(Traced, HessiansByEveryComposition) {
  auto f = [](Tensor x) { return sum(exp(x) * x) * sum(x); };
  auto all = [&](Tensor x) {
    return tuple(hessian(f)(x), jacfwd(jacfwd(f))(x), jacrev(jacrev(f))(x), jacrev(grad(f))(x), jacfwd(grad(f))(x));
  };
  auto out = eval(all, kPoint);
  for (size_t i = 1; i < out.size(); ++i) expect_numbers(out[i], numbers(out[0]), 1e-10);
  auto product = [&](Tensor x, Tensor v) {
    return hvp(f, x, v) - reshape(matmul(hessian(f)(x), reshape(v, {3, 1})), {3});
  };
  expect_numbers(eval(product, kPoint, vec({1, -2, 0.5}))[0], {0, 0, 0}, 1e-10);
}

// ---- Rules of the user

TEST(Traced, CustomVjpReplacesTheGradient) {
  auto clipped = custom_vjp([](Tensor x) { return x * 3; }, [](Tensor x) { return pair(x * 3, tuple<>()); },
                            [](const tuple<>&, Tensor ct) { return tuple(minimum(ct, 1.0)); });
  auto f = [&](Tensor x) { return pair(clipped(x), grad([&](Tensor v) { return sum(clipped(v) * 5); })(x)); };
  auto out = eval(f, vec({1, 2}));
  EXPECT_EQ(numbers(out[0]), (Numbers{3, 6}));
  EXPECT_EQ(numbers(out[1]), (Numbers{1, 1}));
  auto batched = [&](Tensor xs) { return vmap(grad([&](Tensor v) { return clipped(v) * 0.25; }))(xs); };
  EXPECT_EQ(numbers(eval(batched, vec({1, 2}))[0]), (Numbers{0.25, 0.25}));
}

TEST(Traced, CustomVjpTakesOuterValues) {
  auto f = [](Tensor x, Tensor k) {
    auto scaled = custom_vjp([&](Tensor v) { return v * k; }, [&](Tensor v) { return pair(v * k, k); },
                             [](Tensor kept, Tensor ct) { return tuple(ct * kept * 10); });
    return grad([&](Tensor v) { return sum(scaled(v)); })(x);
  };
  EXPECT_EQ(numbers(eval(f, vec({1, 2}), number(3))[0]), (Numbers{30, 30}));
  auto without_residual = [](Tensor x, Tensor k, Tensor other) {
    auto scaled = custom_vjp([&](Tensor v) { return v * k; }, [&](Tensor v) { return pair(v * k, v); },
                             [&](Tensor v, Tensor ct) { return tuple(ct * k * other + 0 * v); });
    Tensor whole = vmap([&](Tensor e) { return jvp(scaled, e, ones({}, f64)).second; })(x);
    return tuple(grad([&](Tensor v) { return sum(scaled(v)); })(x), vmap(grad(scaled))(x), whole);
  };
  for (const Literal& out : eval(without_residual, vec({1, 2}), number(3), number(7)))
    EXPECT_EQ(numbers(out), (Numbers{21, 21}));
}

TEST(Traced, CustomVmapTakesTheRuleForItsBatch) {
  // The rule adds 100, so that one sees which of the two ran.
  auto doubled =
      custom_vmap([](Tensor x, Tensor y) { return x * 2 + y; }, [](Tensor x, Tensor y) { return x * 2 + y + 100; });
  auto f = [&](Tensor x, Tensor xs) {
    auto one = [&](Tensor v) { return doubled(v, x); };
    Tensor gradients = vmap(grad(one))(xs), through = grad([&](Tensor all) { return sum(vmap(one)(all)); })(xs);
    return tuple(one(x), vmap(one)(xs), vmap(vmap(one))(reshape(xs, {3, 1})), gradients, through);
  };
  auto out = eval(f, number(1), vec({1, 2, 3}));
  EXPECT_EQ(numbers(out[0]), Numbers{3});
  EXPECT_EQ(numbers(out[1]), (Numbers{103, 105, 107}));
  EXPECT_EQ(out[2].shape(), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(numbers(out[2]), (Numbers{103, 105, 107}));
  EXPECT_EQ(numbers(out[3]), (Numbers{2, 2, 2}));
  EXPECT_EQ(numbers(out[4]), (Numbers{2, 2, 2}));
}

TEST(Traced, CustomVmapTakesOuterValues) {
  auto f = [](Tensor xs, Tensor ks) {
    auto with = [](Tensor k) {
      return custom_vmap([=](Tensor v) { return v * k; }, [=](Tensor v) { return v * k + 100; });
    };
    Tensor k = reshape(slice(ks, {0}, {1}), {});
    auto each = [&](Tensor x, Tensor own) { return with(own)(x); };
    return tuple(vmap([&](Tensor v) { return with(k)(v); })(xs), vmap(each)(xs, ks));
  };
  auto out = eval(f, vec({1, 2}), vec({3, 5}));
  EXPECT_EQ(numbers(out[0]), (Numbers{103, 106}));
  // A value per example is nothing that the rule knows: the function itself is batched.
  EXPECT_EQ(numbers(out[1]), (Numbers{3, 10}));
}

TEST(Traced, CustomJvpWorksInBothModes) {
  auto f = [](Tensor x, Tensor scale) {
    // log(1 + exp(x)), whose derivative is written so that it does not overflow.
    auto softplus = custom_jvp([&](Tensor v) { return log(exp(v) + 1) * scale; },
                               [&](const tuple<Tensor>& a, const tuple<Tensor>& t) {
                                 Tensor v = std::get<0>(a);
                                 return pair(log(exp(v) + 1) * scale, std::get<0>(t) * logistic(v) * scale);
                               });
    Tensor forward = jvp(softplus, x, ones({}, f64)).second;
    return tuple(forward, grad(softplus)(x), grad(grad(softplus))(x));
  };
  double s = 1 / (1 + std::exp(-0.4));
  auto out = eval(f, number(0.4), number(2));
  expect_numbers(out[0], {2 * s});
  expect_numbers(out[1], {2 * s});
  expect_numbers(out[2], {2 * s * (1 - s)});
}

TEST(Traced, RematComputesAgainWhatItsPolicyDoesNotKeep) {
  auto program = [](RematPolicy policy) {
    return trace(
        "f",
        [=](Tensor x, Tensor w) {
          auto block = [](Tensor v, Tensor m) {
            Tensor h = checkpoint_name(sin(matmul(v, m)), "hidden");
            return sum(exp(matmul(h, m)));
          };
          return value_and_grad(remat(block, policy), wrt<0, 1>)(x, w);
        },
        Spec(f64, {2, 3}), Spec(f64, {3, 3}));
  };
  Literal x = random_literal({DType::kF64, {2, 3}}, 1), w = random_literal({DType::kF64, {3, 3}}, 2);
  std::vector<std::vector<Literal>> values;
  struct Expected {
    RematPolicy policy;
    int dots, sines;
  };
  // Forward 2 products, backward 4; what was not kept is computed again.
  for (const Expected& e :
       {Expected{save_nothing(), 8, 2}, {save_dots(), 6, 2}, {save_names({"other", "hidden"}), 8, 1}}) {
    ir::Module flat = simplified(flattened(program(e.policy).module()));
    EXPECT_EQ(count_ops(flat, "f", "dot_general"), e.dots) << e.policy.policy;
    EXPECT_EQ(count_ops(flat, "f", "sin"), e.sines) << e.policy.policy;
    values.push_back(run(flat, "f", {x, w}));
  }
  for (size_t k = 1; k < values.size(); ++k) EXPECT_EQ(values[k], values[0]);
}

TEST(Traced, ElementwiseStepsAreComputedAgainAndProductsAreStacked) {
  // Of the five values that the way back reads only h is stacked; everything else follows from it and the sequence.
  auto elementwise = [](Tensor w, Tensor xs) {
    auto loss = [&](Tensor p) {
      auto cell = [&](Tensor h, Tensor x) { return pair(tanh(sin(h * p) * cos(x) + exp(h * 0.1)), tuple<>()); };
      return sum(scan(cell, zeros({3}, f64), xs).first);
    };
    return grad(loss)(w);
  };
  // A product is not computed again: it is stacked beside the state, from which its operand follows.
  auto product = [](Tensor w, Tensor xs) {
    auto loss = [&](Tensor p) {
      auto cell = [&](Tensor h, Tensor x) { return pair(tanh(matmul(p, sin(h)) * x), tuple<>()); };
      return sum(scan(cell, ones({3}, f64), xs).first);
    };
    return grad(loss)(w);
  };
  auto stacked = [](const ir::Module& flat) {
    for (const ir::Node& n : flat.find("f")->nodes)
      if (n.op->name == "scan" && !n.attrs.get_bool("reverse")) return n.results.size() - 1;
    return size_t{0};
  };
  EXPECT_EQ(stacked(simplified(flattened(trace("f", elementwise, Spec(f64, {3}), Spec(f64, {5, 3})).module()))), 1u);
  EXPECT_EQ(stacked(simplified(flattened(trace("f", product, Spec(f64, {3, 3}), Spec(f64, {5, 3})).module()))), 2u);
}

TEST(Traced, RematInsideAScanStacksTheStatesAlone) {
  auto f = [](Tensor w, Tensor xs) {
    auto loss = [&](Tensor p) {
      auto cell = remat([](Tensor h, Tensor x, Tensor q) { return tanh(sin(h * q) * cos(x) + h); });
      return scan([&](Tensor h, Tensor x) { return pair(cell(h, x, p), tuple<>()); }, zeros({}, f64), xs).first;
    };
    return grad(loss)(w);
  };
  auto plain = [](Tensor w, Tensor xs) {
    auto loss = [&](Tensor p) {
      auto cell = [](Tensor h, Tensor x, Tensor q) { return tanh(sin(h * q) * cos(x) + h); };
      return scan([&](Tensor h, Tensor x) { return pair(cell(h, x, p), tuple<>()); }, zeros({}, f64), xs).first;
    };
    return grad(loss)(w);
  };
  Literal w = number(0.7), xs = vec({0.1, 0.4, 0.9});
  expect_numbers(eval(f, w, xs)[0], numbers(eval(plain, w, xs)[0]));
  auto traced = trace("f", f, Spec(f64, {}), Spec(f64, {3}));
  ir::Module flat = simplified(flattened(traced.module()));
  for (const ir::Node& n : flat.find("f")->nodes)
    if (n.op->name == "scan" && !n.attrs.get_bool("reverse")) {
      EXPECT_EQ(n.results.size(), 2u) << "state, its history";
    }
}

}  // namespace
}  // namespace nabla::transforms
