// Autocast: where values are rounded, what that does to results, and how it stands among other transforms. Scaling of
// losses: when the factor moves, and what a step that overflows leaves alone.
#include "frontend/cpp/mixed_precision.h"

#include <gtest/gtest.h>

#include <cmath>

#include "frontend/cpp/control_flow.h"
#include "frontend/cpp/convenience.h"
#include "frontend/cpp/custom_rules.h"
#include "frontend/cpp/optimizers.h"
#include "frontend/cpp/transforms.h"
#include "ir/ops/all_ops.h"
#include "ir/target.h"
#include "tests/transforms/random_function.h"

namespace nabla::transforms {
namespace {

using std::pair;
using std::tuple;

// Nodes named `op` with a result of `dtype` in f and what it runs.
int count(const ir::Module& m, std::string_view op, DType dtype, const std::string& f = "f") {
  int n = 0;
  for (const ir::Node& node : m.find(f)->nodes) {
    n += node.op->name == op && m.find(f)->type(node.results[0]).dtype == dtype;
    for (const std::string& callee : functions_of(node.attrs)) n += count(m, op, dtype, callee);
  }
  return n;
}

// The largest distance of any element, over the largest element.
double distance(const std::vector<Literal>& a, const std::vector<Literal>& b) {
  double far = 0, size = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t k = 0; k < a.size(); ++k)
    for (int64_t i = 0; i < a[k].size(); ++i) {
      far = std::max(far, std::fabs(a[k].get(i) - b[k].get(i)));
      size = std::max(size, std::fabs(b[k].get(i)));
    }
  return far / size;
}

Tensor network(Tensor x, Tensor w) {
  Tensor h = relu(transpose(matmul(x, w), {1, 0}));
  return sum(softmax(matmul(transpose(h, {1, 0}), w), 1) * x);
}
const Spec kX(f32, {4, 6}), kW(f32, {6, 6});
Literal some(const Spec& s, uint64_t seed) { return random_literal({s.dtype, s.shape}, seed); }

TEST(Autocast, ProductsAreRoundedAndTheRestIsNot) {
  auto f = trace(
      "f", [](Tensor x, Tensor w) { return value_and_grad(autocast(network), wrt<0, 1>)(x, w); }, kX, kW);
  auto plain = trace(
      "f", [](Tensor x, Tensor w) { return value_and_grad(network, wrt<0, 1>)(x, w); }, kX, kW);
  ir::Module flat = flattened(f.module());
  EXPECT_EQ(count(flat, "dot_general", bf16), 6) << "two forward, four back";
  EXPECT_EQ(count(flat, "dot_general", f32), 0);
  EXPECT_GE(count(flat, "transpose", bf16), 1) << "the product is moved as it was stored";
  EXPECT_EQ(count(flat, "relu", bf16) + count(flat, "softmax", bf16) + count(flat, "reduce_sum", bf16), 0);
  for (ir::ValueId id : flat.find("f")->results) EXPECT_EQ(flat.find("f")->type(id).dtype, f32);
  std::vector<Literal> args = {some(kX, 1), some(kW, 2)}, got = run(flat, "f", args);
  double off = distance(got, run(flattened(plain.module()), "f", args));
  EXPECT_LT(off, 0.02) << "bf16 has 8 significant bits";
  EXPECT_GT(off, 1e-5) << "and no more";
}

TEST(Autocast, ReachesIntoCompositesLoopsAndBranches) {
  auto f = [](Tensor q, Tensor w) {
    auto body = [&](Tensor h, Tensor x) {
      Tensor y = attention(h, h, h, {}, true);
      return pair(y + x, tuple<>());
    };
    Tensor looped = scan([&](Tensor h, Tensor x) { return body(h, x); }, q, broadcast_to(q, {3, 1, 2, 5, 4})).first;
    return cond(
        sum(looped) > 0, [&](Tensor v) { return sum(matmul(v, w)); }, [&](Tensor v) { return sum(v); }, looped);
  };
  auto loss = [f](Tensor q, Tensor w) { return grad(autocast(f, f16), wrt<0, 1>)(q, w); };
  Spec qs(f32, {1, 2, 5, 4}), ws(f32, {4, 4});
  ir::Module flat = flattened(trace("f", loss, qs, ws).module());
  EXPECT_EQ(count(flat, "dot_general", f32), 0);
  EXPECT_GE(count(flat, "attention", f16), 1) << "stays whole, as its sums are f32";
  EXPECT_EQ(count(flat, "attention_grad", f16), 1);
  EXPECT_EQ(count(flat, "attention", f32) + count(flat, "attention_grad", f32), 0);
  EXPECT_EQ(count(flat, "dot_general", f16), 1 + 2) << "the branch and its way back";
  std::vector<Literal> args = {some(qs, 3), some(ws, 4)};
  auto plain = [f](Tensor q, Tensor w) { return grad(f, wrt<0, 1>)(q, w); };
  EXPECT_LT(distance(run(flat, "f", args), run(flattened(trace("f", plain, qs, ws).module()), "f", args)), 0.01);
}

// With many features attention is made of products, and so is its way back inside of autocast.
TEST(Autocast, TakesApartWhatNoKernelComputesWhole) {
  auto f = [](Tensor q, Tensor key) { return sum(attention(q, q, q, {key}, true, /*scale=*/0, /*dropout=*/0.5)); };
  Spec qs(f32, {1, 2, 5, 4}), wide(f32, {1, 2, 5, 260}), key(u32, {2});
  ir::Module dropped = flattened(trace("f", autocast(f, bf16), qs, key).module());
  EXPECT_EQ(count(dropped, "attention", bf16), 1);
  EXPECT_EQ(count(flattened(trace("f", autocast(f, bf16), wide, key).module()), "dot_general", bf16), 2);
  auto back = autocast([](Tensor q) { return grad([](Tensor v) { return sum(attention(v, v, v, {}, true)); })(q); });
  ir::Module flat = flattened(trace("f", back, qs).module());
  EXPECT_EQ(count(flat, "dot_general", f32), 0);
  EXPECT_GE(count(flat, "dot_general", bf16), 4) << "of the way back";
}

// Numbers that are added to scores keep their bits; those that were computed in 16 bits are added as they are.
TEST(Autocast, LeavesMasksOfNumbersAsTheyAre) {
  auto f = [](Tensor q, Tensor mask) { return sum(attention(q, q, q, {mask})); };
  Spec qs(f32, {1, 2, 5, 4}), masks(f32, {1, 2, 5, 5});
  ir::Module flat = flattened(trace("f", autocast(f, bf16), qs, masks).module());
  EXPECT_EQ(count(flat, "attention", bf16), 1);
  EXPECT_EQ(count(flat, "convert", bf16), 1) << "of q";
  auto relative = [f](Tensor q, Tensor x) { return f(q, matmul(x, transpose(x, {0, 1, 3, 2}))); };
  flat = flattened(trace("f", autocast(relative, bf16), qs, qs).module());
  EXPECT_EQ(count(flat, "attention", bf16), 1);
  EXPECT_EQ(count(flat, "dot_general", bf16), 1);
  auto learned = [f](Tensor q, Tensor mask) { return grad(autocast(f, bf16), wrt<0, 1>)(q, mask); };
  auto plain = [f](Tensor q, Tensor mask) { return grad(f, wrt<0, 1>)(q, mask); };
  std::vector<Literal> args = {some(qs, 3), some(masks, 4)};
  EXPECT_LT(distance(run(flattened(trace("f", learned, qs, masks).module()), "f", args),
                     run(flattened(trace("f", plain, qs, masks).module()), "f", args)), 0.03);
}

TEST(Autocast, StandsAnywhereAmongTransforms) {
  Spec xs(f32, {3, 4, 6});
  VmapOptions map{.in_axes = {0, unmapped}};
  auto inside = [=](Tensor x, Tensor w) { return vmap(autocast(network), map)(x, w); };
  auto outside = [=](Tensor x, Tensor w) { return autocast(vmap(network, map))(x, w); };
  auto again = [=](Tensor x, Tensor w) { return vmap(autocast(remat(network)), map)(x, w); };
  std::vector<Literal> args = {some(xs, 5), some(kW, 6)};
  auto values = [&](auto f) { return run(flattened(trace("f", f, xs, kW).module()), "f", args); };
  EXPECT_LT(distance(values(inside), values(outside)), 1e-6);
  EXPECT_LT(distance(values(again), values(outside)), 1e-6);
  auto back = [](Tensor x, Tensor w) { return autocast(grad(network))(x, w); };
  EXPECT_EQ(count(flattened(trace("f", back, kX, kW).module()), "dot_general", f32), 0);
}

TEST(Autocast, RefusesOtherTypes) {
  try {
    trace(
        "f", [](Tensor x, Tensor w) { return autocast(network, f64)(x, w); }, kX, kW);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("autocast: dtype is f64, expected bf16 or f16 (C3)"), std::string::npos)
        << e.what();
  }
}

template <class T>
struct Weights {
  T w;
  template <class V>
  void visit(V&& v) {
    v("w", w);
  }
};

TEST(LossScale, AStepThatOverflowsOnlyLowersTheFactor) {
  Program program;
  Weights<Spec> specs{{f32, {3}}};
  Weights<State> parameters = program.states("", specs);
  nn::LossScale scale(program, {.initial = 1024, .interval = 2});
  nn::Optimizer<Weights> optimizer(program, specs, nn::sgd(0.9), "sgd");
  program.entry("step", {{"x", f32, {3}}}, [&](Tensor x) -> Outputs {
    auto loss = [&](Weights<Tensor> p) { return scale.scaled(sum(p.w * x)); };
    auto [scaled, g] = value_and_grad(loss)(Weights<Tensor>{parameters.w.get()});
    auto [gradients, finite] = scale.unscaled(g);
    optimizer.apply(parameters, gradients, 0.5, finite);
    return {{"gradient", gradients.w}, {"finite", finite}};
  });
  ir::Module flat = flattened(program.module());
  const ir::Entry& entry = flat.entries[0];
  std::map<std::string, Literal> state;
  for (const ir::StateLeaf& leaf : flat.state) state[leaf.name] = Literal(leaf.type.dtype, leaf.type.extents());
  state["loss_scale.scale"].set(0, 1024);
  auto step = [&](double x) {
    std::vector<Literal> args;
    for (int leaf : entry.reads) args.push_back(state[flat.state[leaf].name]);
    Literal input(f32, {3});
    for (int i = 0; i < 3; ++i) input.set(i, x);
    args.push_back(input);
    std::vector<Literal> out = run(flat, entry.function, args);
    for (size_t i = 0; i < entry.writes.size(); ++i) state[flat.state[entry.writes[i]].name] = out[i];
    return out[entry.writes.size()].get(0);
  };
  auto number = [&](const char* name) {
    return is_float(state[name].dtype()) ? state[name].get(0) : state[name].get_i(0);
  };
  EXPECT_EQ(step(2), 2) << "gradients come out unscaled";
  EXPECT_EQ(number("w"), -1);
  EXPECT_EQ(number("sgd.step"), 1);
  EXPECT_EQ(number("loss_scale.good"), 1);
  step(2);
  EXPECT_EQ(number("loss_scale.scale"), 2048) << "after two good ones";
  EXPECT_EQ(number("loss_scale.good"), 0);
  double before = number("w");
  step(1e38);  // times 2048 is infinite
  EXPECT_EQ(number("w"), before);
  EXPECT_EQ(number("sgd.step"), 2);
  EXPECT_EQ(number("loss_scale.scale"), 1024);
  step(NAN);
  EXPECT_EQ(number("w"), before);
  EXPECT_EQ(number("loss_scale.scale"), 512);
}

}  // namespace
}  // namespace nabla::transforms
