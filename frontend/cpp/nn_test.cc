// Layers, losses and optimizers against numbers worked out by hand, and entries that use them.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "frontend/cpp/layers.h"
#include "frontend/cpp/losses.h"
#include "frontend/cpp/optimizers.h"
#include "frontend/cpp/test_values.h"
#include "ir/op_def.h"

namespace nabla {
namespace {

Values counted(int64_t n) {
  Values out;
  for (int64_t i = 1; i <= n; ++i) out.push_back(static_cast<double>(i));
  return out;
}

TEST(Layers, pooling_options) {
  Literal x = vec(counted(25), {1, 5, 5, 1});
  nn::Pool2d o{.window = {2, 2}};
  EXPECT_EQ(eval([o](Tensor t) { return nn::max_pool2d(t, o); }, x), (Values{7, 9, 17, 19}));
  EXPECT_EQ(eval([o](Tensor t) { return nn::avg_pool2d(t, o); }, x), (Values{4, 6, 14, 16}));
  o.ceil_mode = true;
  EXPECT_EQ(eval([o](Tensor t) { return nn::max_pool2d(t, o); }, x), (Values{7, 9, 10, 17, 19, 20, 22, 24, 25}));
  EXPECT_EQ(eval([o](Tensor t) { return nn::avg_pool2d(t, o); }, x), (Values{4, 6, 7.5, 14, 16, 17.5, 21.5, 23.5, 25}));
  nn::Pool2d padded{.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  expect_near(eval([padded](Tensor t) { return nn::avg_pool2d(t, padded); }, x),
              {16.0 / 9, 33.0 / 9, 28.0 / 9, 69.0 / 9, 13, 87.0 / 9, 76.0 / 9, 123.0 / 9, 88.0 / 9});
  padded.count_include_pad = false;
  EXPECT_EQ(eval([padded](Tensor t) { return nn::avg_pool2d(t, padded); }, x),
            (Values{4, 5.5, 7, 11.5, 13, 14.5, 19, 20.5, 22}));
  nn::Pool2d dilated{.window = {2, 2}, .stride = {1, 1}, .dilation = {3, 3}};
  EXPECT_EQ(eval([dilated](Tensor t) { return nn::max_pool2d(t, dilated); }, x), (Values{19, 20, 24, 25}));
}

TEST(Layers, transposed_convolution_spreads_the_filter) {
  Literal x = vec({1, 2, 3, 4}, {1, 2, 2, 1}), w = vec({1, 10, 100, 1000}, {2, 2, 1, 1});
  auto f = [](Tensor a, Tensor b) { return nn::conv2d_transpose(a, b, {.stride = {2, 2}}); };
  EXPECT_EQ(eval(f, x, w), (Values{1, 10, 2, 20, 100, 1000, 200, 2000, 3, 30, 4, 40, 300, 3000, 400, 4000}));
  auto g = [](Tensor a, Tensor b) { return nn::conv2d_transpose(a, b); };
  EXPECT_EQ(eval(g, x, w), (Values{1, 12, 20, 103, 1234, 2040, 300, 3400, 4000}));
}

TEST(Layers, group_and_batch_norm) {
  Literal x = vec({1, 3, 10, 30, 5, 7, 20, 40}, {2, 1, 4}), one = vec({1, 1, 1, 1}), zero = vec({0, 0, 0, 0});
  auto group = [](Tensor t, Tensor g, Tensor b) { return nn::group_norm(t, g, b, 2, 0); };
  expect_near(eval(group, x, one, zero), {-1, 1, -1, 1, -1, 1, -1, 1});
  auto batch = [](Tensor t, Tensor g, Tensor b) { return nn::batch_norm_train(t, g, b, 0).out; };
  expect_near(eval(batch, x, one, zero), {-1, -1, -1, -1, 1, 1, 1, 1});
}

TEST(Layers, statistics_of_f16_are_computed_in_f32) {
  // Sums of these elements, and their squares, are beyond 65504; their mean and deviation are not.
  Literal x = vec({60000, 59000, 58000, 57000}, {1, 2, 2}, DType::kF16), ones = vec({1, 1}, {}, DType::kF16),
          zeros = vec({0, 0}, {}, DType::kF16);
  Literal image = vec({60000, 59000, 58000, 57000}, {1, 2, 2, 1}, DType::kF16);
  EXPECT_EQ(eval([](Tensor t) { return mean(t); }, x), (Values{58496}));  // 58500, rounded to f16
  EXPECT_EQ(eval([](Tensor t) { return stddev(t); }, x), (Values{1123}));
  EXPECT_EQ(eval([](Tensor t) { return nn::avg_pool2d(t, {.window = {2, 2}}); }, image), (Values{58496}));
  EXPECT_EQ(eval([](Tensor t) { return avg_pool2d(t, 2); }, image), (Values{58496}));
  auto group = [](Tensor t, Tensor g, Tensor b) { return nn::group_norm(t, g, b, 1); };
  expect_near(eval(group, x, ones, zeros), {1.3418, 0.4473, -0.4473, -1.3418}, 2e-2);
  auto batch = [](Tensor t, Tensor g, Tensor b) { return nn::batch_norm_train(t, g, b).out; };
  expect_near(eval(batch, x, ones, zeros), {1, 1, -1, -1}, 1e-3);
  auto running = [](Tensor t, Tensor g, Tensor b) {
    return nn::batch_norm(t, g, b, full({2}, 58000, f32), full({2}, 1e6, f32));
  };
  expect_near(eval(running, x, ones, zeros), {2, 1, 0, -1}, 2e-2);
  auto parts = [](Tensor t, Tensor g, Tensor b) { return nn::batch_norm_train(t, g, b, 1e-5, 1).out; };
  EXPECT_EQ(eval(parts, x, ones, zeros), eval(batch, x, ones, zeros));
}

TEST(Layers, batch_norm_of_parts) {
  Literal x = vec({1, 10, 3, 30, 5, 20, 9, 20}, {4, 2}), one = vec({1, 1}), zero = vec({0, 0});
  auto part = [](Tensor t, Tensor g, Tensor b) { return nn::batch_norm_train(t, g, b, 1e-12, 2).out; };
  expect_near(eval(part, x, one, zero), {-1, -1, 1, 1, -1, 0, 1, 0});
  auto kept = [](Tensor t, Tensor g, Tensor b) {
    nn::BatchNormResult r = nn::batch_norm_train(t, g, b, 1e-12, 2);
    return concatenate({r.mean, r.variance}, 1);
  };
  expect_near(eval(kept, x, one, zero), {2, 20, 1, 100, 7, 20, 4, 0});
  auto given = [](Tensor t, Tensor g, Tensor b) {
    nn::BatchNormResult r = nn::batch_norm_train(t, g, b, 0, 2);
    return nn::batch_norm(t, g, b, r.mean, r.variance, 1e-12);
  };
  expect_near(eval(given, x, one, zero), {-1, -1, 1, 1, -1, 0, 1, 0});
  try {
    eval([](Tensor t, Tensor g, Tensor b) { return nn::batch_norm_train(t, g, b, 0, 3).out; }, x, one, zero);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.diagnostics()[0].message, "batch_norm: 3 parts of equal size of the first dimension of f32[4,2]");
  }
}

TEST(Losses, values) {
  Literal x = vec({0.5, -2}), y = vec({0, 1});
  EXPECT_EQ(eval([](Tensor a, Tensor b) { return nn::huber(a, b); }, x, y), (Values{0.125, 2.5}));
  expect_near(eval([](Tensor a, Tensor b) { return nn::bce_with_logits(a, b); }, x, y), {0.974077, 2.126928});
  expect_near(eval([](Tensor a, Tensor b) { return nn::bce(logistic(a), b); }, x, y), {0.974077, 2.126928});
  expect_near(eval([](Tensor a, Tensor b) { return nn::kl_divergence(log(a), b); }, vec({0.25, 0.75}), vec({0, 1})),
              {std::log(1 / 0.75)});
  Literal logits = vec({1, 2, 0}, {1, 3}), label = vec({1}, {}, i32);
  double lse = std::log(std::exp(1.0) + std::exp(2.0) + 1);
  expect_near(eval([](Tensor a, Tensor b) { return nn::smooth_cross_entropy(a, b, 0.3); }, logits, label),
              {0.7 * (lse - 2) + 0.3 * (lse - 1)});
  expect_near(eval([](Tensor a, Tensor b) { return nn::cosine_similarity(a, b); }, vec({3, 4}), vec({4, 3})), {0.96});
}

TEST(Schedules, warm_up_and_cosine) {
  nn::CosineSchedule o{.peak = 2, .final = 1, .warmup = 4, .total = 12};
  auto at = [o](double step) {
    return eval([o](Tensor s) { return nn::cosine_schedule(s, o); }, vec({step}, {1}, i32))[0];
  };
  EXPECT_NEAR(at(1), 0.5, 1e-6);
  EXPECT_NEAR(at(4), 2, 1e-6);
  EXPECT_NEAR(at(8), 1.5, 1e-6);
  EXPECT_NEAR(at(12), 1, 1e-6);
  EXPECT_NEAR(at(100), 1, 1e-6);
}

template <class T>
struct Pair {
  T a, b;
  template <class V>
  void visit(V&& v) {
    v("a", a);
    v("b", b);
  }
};

TEST(Optimizers, clipping_scales_all_gradients_together) {
  auto f = [](Tensor a, Tensor b) { return nn::clip_by_global_norm(Pair<Tensor>{a, b}, 1.0).first.b; };
  expect_near(eval(f, vec({3}), vec({4})), {0.8});
  expect_near(eval(f, vec({0.3}), vec({0.4})), {0.4});
}

TEST(Optimizers, clipping_of_f16_keeps_small_factors) {
  // The norm is 6e4 * sqrt(131072): the factor is 4.6e-8, for which f16 has no digits.
  auto f = [](Tensor t) {
    Tensor wide = broadcast_to(t, Shape{65536});
    return slice_axis(nn::clip_by_global_norm(Pair<Tensor>{wide, wide}, 1.0).first.a, 0, 0, 1);
  };
  expect_near(eval(f, vec({6e4}, {}, DType::kF16)), {1 / 256.0 / std::sqrt(2.0)}, 2e-6);
}

TEST(Optimizers, norms_of_f64_are_f64) {
  expect_near(eval([](Tensor t) { return nn::global_norm({t, full({}, 4, f32)}) / 1e100; }, vec({3e100}, {}, DType::kF64)), {3});
  auto clipped = [](Tensor t) { return nn::clip_by_global_norm(Pair<Tensor>{t, t}, 1.0).first.a * std::sqrt(2.0); };
  EXPECT_NEAR(eval(clipped, vec({3e100}, {}, DType::kF64))[0], 1, 1e-15);
}

TEST(Losses, of_f16_do_not_overflow) {
  Literal far = vec({300}, {}, DType::kF16), zero = vec({0}, {}, DType::kF16);
  auto mse = [](Tensor x, Tensor y) { return nn::mse(x, y); };
  auto huber = [](Tensor x, Tensor y) { return nn::huber(x, y, 400); };
  auto distance = [](Tensor x, Tensor y) { return nn::triplet(x, y, x); };
  EXPECT_EQ(eval(mse, far, zero), (Values{90000}));
  EXPECT_EQ(eval(huber, far, zero), (Values{45000}));
  expect_near(eval(distance, far, zero), {301}, 1e-3);
}

/// Parameters, which begin as 1, after `steps` updates by gradients of this scale.
Values trained(const nn::OptimizerRule& rule, int steps, DType dtype = f32, double scale = 1) {
  Program program;
  Pair<Spec> specs{{dtype, {2, 2}}, {dtype, {3}}};
  Pair<State> params = program.states("", specs);
  nn::Optimizer<Pair> optimizer(program, specs, rule);
  program.entry("step", {}, [&](const std::vector<Tensor>&) {
    Pair<Tensor> g{full({2, 2}, 0.5 * scale, dtype) * get(params).a, full({3}, -2 * scale, dtype)};
    optimizer.apply(params, g, 0.1);
  });
  const ir::Module& m = program.module();
  const ir::Entry& e = *m.find_entry("step");
  std::map<int, Literal> state;
  for (size_t i = 0; i < m.state.size(); ++i) {
    state[static_cast<int>(i)] = Literal(m.state[i].type.dtype, m.state[i].type.extents());
    if (i < 2)
      for (int64_t k = 0; k < state[static_cast<int>(i)].size(); ++k) state[static_cast<int>(i)].set(k, 1);
  }
  for (int s = 0; s < steps; ++s) {
    std::vector<Literal> args;
    for (int leaf : e.reads) args.push_back(state[leaf]);
    std::vector<Literal> out = interpreted(m, e.function, args);
    for (size_t w = 0; w < e.writes.size(); ++w) state[e.writes[w]] = out[w];
  }
  return {state[0].get(0), state[1].get(0)};
}

TEST(Optimizers, the_nodes_of_every_rule_stand_in_the_line_that_calls_apply) {
  for (const nn::OptimizerRule& rule : {nn::sgd(0.9), nn::adam(0.9, 0.999, 1e-8, 0.1), nn::adamw(), nn::rmsprop(),
                                        nn::adagrad(), nn::lion(), nn::adafactor()}) {
    Program program;
    Pair<Spec> specs{{f32, {2, 2}}, {f32, {3}}};
    Pair<State> params = program.states("", specs);
    nn::Optimizer<Pair> optimizer(program, specs, rule);
    int line = __LINE__ + 2;
    program.entry("step", {{"a", f32, {2, 2}}, {"b", f32, {3}}}, [&](Tensor a, Tensor b) -> Outputs {
      optimizer.apply(params, Pair<Tensor>{a, b}, 0.1);
      return {};
    });
    for (const ir::Node& n : program.module().find("step")->nodes) {
      ASSERT_NE(n.location, nullptr) << rule.name << " " << n.op->name;
      EXPECT_EQ(n.location->line, line) << rule.name << " " << n.op->name;
    }
  }
}

TEST(Optimizers, first_steps) {
  expect_near(trained(nn::sgd(), 1), {0.95, 1.2});
  // Momentum: b = -2, then 0.9 * -2 - 2.
  EXPECT_NEAR(trained(nn::sgd(0.9), 2)[1], 1.2 + 0.38, 1e-5);
  EXPECT_NEAR(trained(nn::sgd(0.9, true), 1)[1], 1 + 0.1 * 3.8, 1e-5);
  // The first step of these is lr in the gradient's direction, whatever its size.
  expect_near(trained(nn::adam(), 1), {0.9, 1.1});
  expect_near(trained(nn::adamw(0.9, 0.999, 1e-8, 0), 1), {0.9, 1.1});
  expect_near(trained(nn::lion(), 1), {0.9, 1.1});
  expect_near(trained(nn::adagrad(), 1), {0.9, 1.1});
  expect_near(trained(nn::rmsprop(0.75), 1), {0.8, 1.2});
  expect_near(trained(nn::adafactor(), 1), {0.9, 1.1});
}

TEST(Optimizers, f16_parameters_are_updated_in_f32) {
  for (const nn::OptimizerRule& rule : {nn::sgd(0.9), nn::adam(), nn::adam(0.9, 0.999, 1e-8, 0.1), nn::adamw(),
                                        nn::rmsprop(), nn::adagrad(), nn::lion(), nn::adafactor()}) {
    // Gradients of 0: eps alone divides, and must not be 0.
    for (double value : trained(rule, 2, f16, 0)) EXPECT_TRUE(std::isfinite(value)) << rule.name;
    // Squares beyond 65504.
    Values half = trained(rule, 1, f16, 500), single = trained(rule, 1, f32, 500);
    for (size_t i = 0; i < half.size(); ++i)
      EXPECT_NEAR(half[i], single[i], 1e-3 * std::max(1.0, std::abs(single[i]))) << rule.name;
  }
}

TEST(Attention, a_cache_gives_what_the_whole_sequence_gives) {
  Values data = counted(2 * 4 * 3);
  for (double& v : data) v = std::sin(v);
  Literal x = vec(data, {1, 2, 4, 3});  // [batch, heads, positions, features]
  auto whole = [](Tensor t) { return attention(t, t * 0.5, t + 1, {}, true); };
  Values want = eval(whole, x);
  auto by_cache = [](Tensor t) {
    Tensor k = zeros({1, 2, 6, 3}), v = k;
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < 4; ++i) {
      Tensor now = slice_axis(t, 2, i, i + 1);
      k = nn::cache_append(k, now * 0.5, static_cast<int>(i), 2);
      v = nn::cache_append(v, now + 1, static_cast<int>(i), 2);
      rows.push_back(attention(now, k, v, {nn::cache_mask(static_cast<int>(i), 1, 6)}));
    }
    return concatenate(rows, 2);
  };
  expect_near(eval(by_cache, x), want);
}

}  // namespace
}  // namespace nabla
