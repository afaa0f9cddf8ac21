// Indexing, windows, recurrent layers, adapters and transformer layers against numbers worked out another way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "frontend/cpp/indexing.h"
#include "frontend/cpp/lora.h"
#include "frontend/cpp/rnn.h"
#include "frontend/cpp/test_values.h"
#include "frontend/cpp/transformer.h"
#include "frontend/cpp/windows.h"

namespace nabla {
namespace {

TEST(Indexing, search) {
  Literal rows = vec({1, 3, 3, 5, 0, 2, 4, NAN}, {2, 4}), values = vec({0, 3, 4, 9, 4, 2, NAN, -1}, {2, 4});
  EXPECT_EQ(eval([](Tensor s, Tensor v) { return searchsorted(s, v); }, rows, values),
            (Values{0, 1, 3, 4, 2, 1, 3, 0}));
  EXPECT_EQ(eval([](Tensor s, Tensor v) { return searchsorted(s, v, true); }, rows, values),
            (Values{0, 3, 3, 4, 3, 2, 4, 0}));
}

TEST(Indexing, vectors_of_indices) {
  Literal x = vec({1, 2, 3, 4, 5, 6}, {2, 3}), pairs = vec({0, 2, 1, 0}, {2, 2}, i32), rows = vec({1, 1}, {2, 1}, i32);
  EXPECT_EQ(eval([](Tensor t, Tensor i) { return gather_nd(t, i); }, x, pairs), (Values{3, 4}));
  EXPECT_EQ(eval([](Tensor t, Tensor i) { return gather_nd(t, i); }, x, rows), (Values{4, 5, 6, 4, 5, 6}));
  auto add = [](Tensor t, Tensor i) { return scatter_nd_add(t, i, ones({2, 3})); };
  EXPECT_EQ(eval(add, x, rows), (Values{1, 2, 3, 6, 7, 8}));
  auto set = [](Tensor t, Tensor i) { return scatter_nd(t, i, full({2}, 9)); };
  EXPECT_EQ(eval(set, x, pairs), (Values{1, 2, 9, 9, 5, 6}));
  std::string text = error_of([&] { eval([](Tensor t, Tensor i) { return gather_nd(t, i); }, vec({1, 2}), pairs); });
  EXPECT_NE(text.find("gather_nd: indices i32[2,2] into f32[2]: expected [..., k] with k in [1, 1]"), std::string::npos)
      << text;
  auto masked = [](Tensor t) { return masked_scatter(t, gt(t, 3), arange(10, 14)); };
  EXPECT_EQ(eval(masked, x), (Values{1, 2, 3, 10, 11, 12}));
}

TEST(Indexing, draws) {
  Literal key = vec({7, 9}, {2}, u32), logits = vec({std::log(0.7), std::log(0.2), std::log(0.1)});
  auto draws = [](Tensor k, Tensor l) { return categorical(k, broadcast_to(l, {3000, 3})); };
  Values drawn = eval(draws, key, logits);
  double share[3] = {};
  for (double v : drawn) share[static_cast<int>(v)] += 1.0 / 3000;
  EXPECT_NEAR(share[0], 0.7, 0.03);
  EXPECT_NEAR(share[1], 0.2, 0.03);
  EXPECT_NEAR(share[2], 0.1, 0.03);
  Values order = eval([](Tensor k) { return permutation(k, 50); }, key), sorted = order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_NE(order, sorted);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(sorted[static_cast<size_t>(i)], i);
}

TEST(Windows, resize) {
  Literal x = vec({1, 2, 3, 4}), two = vec({1, 3});
  auto to = [](int64_t n, const char* method, bool corners) {
    return [=](Tensor t) { return resize(t, {0}, {n}, {.method = method, .align_corners = corners}); };
  };
  expect_near(eval(to(5, "linear", true), two), {1, 1.5, 2, 2.5, 3});
  expect_near(eval(to(4, "linear", false), two), {1, 1.5, 2.5, 3});
  expect_near(eval(to(2, "cubic", false), x), {1.40625, 3.59375});
  expect_near(eval(to(4, "cubic", true), x), {1, 2, 3, 4});
  EXPECT_EQ(eval(to(8, "nearest", false), x), (Values{1, 1, 2, 2, 3, 3, 4, 4}));
  EXPECT_EQ(eval(to(2, "nearest", false), vec({1, 2, 3, 4, 5, 6})), (Values{2, 5}));
  std::string text = error_of([&] { eval(to(2, "area", false), x); });
  EXPECT_NE(text.find("resize: method \"area\", expected \"nearest\", \"linear\" or \"cubic\""), std::string::npos);
}

TEST(Windows, images_of_another_size) {
  Literal x = vec({1, 2, 3, 4}, {1, 2, 2, 1});
  EXPECT_EQ(eval([](Tensor t) { return resize_nearest(t, 2, 4); }, x), (Values{1, 1, 2, 2, 3, 3, 4, 4}));
  EXPECT_EQ(eval([](Tensor t) { return resize_bilinear(t, 1, 4); }, x), (Values{2, 2.25, 2.75, 3}));
}

TEST(Windows, resize_of_integers_rounds) {
  auto to = [](int64_t n, const char* method) {
    return [=](Tensor t) { return resize(t, {0}, {n}, {.method = method}); };
  };
  EXPECT_EQ(eval(to(4, "linear"), vec({10, 20}, {}, DType::kU8)), (Values{10, 12, 18, 20}));  // 12.5 and 17.5 to even
  // 288 and -33 are beyond u8.
  EXPECT_EQ(eval(to(8, "cubic"), vec({0, 0, 255, 255}, {}, DType::kU8))[2], 0);
  EXPECT_EQ(eval(to(2, "nearest"), vec({1, 2, 3, 4}, {}, DType::kI32)), (Values{2, 4}));
  EXPECT_EQ(eval(to(4, "linear"), vec({6e4, 6e4}, {}, DType::kF16)), (Values{6e4, 6e4, 6e4, 6e4}));
}

TEST(Windows, patches) {
  Values numbers = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Literal x = vec(numbers, {1, 3, 3, 1});
  EXPECT_EQ(eval([](Tensor t) { return unfold(t, {}); }, x), (Values{1, 2, 4, 5, 2, 3, 5, 6, 4, 5, 7, 8, 5, 6, 8, 9}));
  EXPECT_EQ(eval([](Tensor t) { return fold(unfold(t, {}), 3, 3, {}); }, x), (Values{1, 4, 3, 8, 20, 12, 7, 16, 9}));
  // With padding, stride and dilation fold is the transpose of unfold: <unfold(x), y> = <x, fold(y)>.
  Patches o{.window = {2, 3}, .stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}};
  auto difference = [o](Tensor t) {
    Tensor u = unfold(t, o), y = reshape(sin(convert(iota(Shape{u.type().count()}, 0), f32)), u.shape());
    return sum(u * y) - sum(t * fold(y, 3, 3, o));
  };
  expect_near(eval(difference, x), {0}, 1e-4);
  auto product = [](Tensor t) { return matmul(reshape(unfold(t, {}), Shape{4, 4}), ones({4, 1})); };
  EXPECT_EQ(eval(product, x), (Values{12, 16, 24, 28}));
}

TEST(Windows, convolutions_in_one_and_three_dimensions) {
  Literal x = vec({1, 2, 3, 5}, {1, 4, 1}), f = vec({1, 0, -1}, {3, 1, 1});
  EXPECT_EQ(eval([](Tensor a, Tensor b) { return conv1d(a, b); }, x, f), (Values{-2, -3}));
  EXPECT_EQ(eval([](Tensor a, Tensor b) { return conv1d(a, b, 1, 1); }, x, f), (Values{-2, -2, -3, 3}));
  Literal cube = vec({1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 2, 2, 1}), taps = vec(Values(8, 1), {2, 2, 2, 1, 1});
  EXPECT_EQ(eval([](Tensor a, Tensor b) { return conv3d(a, b); }, cube, taps), (Values{36}));
  EXPECT_EQ(eval([](Tensor a, Tensor b) { return conv3d(a, b, 2, 1); }, cube, taps), (Values{1, 2, 3, 4, 5, 6, 7, 8}));
}

// ---- Recurrent layers of one feature and one state, step by step

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

const Values kInput = {0.5, -1, 2}, kW = {0.4, -0.3, 0.8, 0.2}, kU = {0.1, 0.7, -0.5, 0.3}, kB = {0.1, 0.2, -0.1, 0},
             kC = {0.05, -0.2, 0.3, 0.15};

nn::Recurrent<Tensor> scalar_layer(int64_t gates) {
  auto part = [gates](const Values& v, bool bias) {
    Literal l(DType::kF32, bias ? std::vector<int64_t>{gates} : std::vector<int64_t>{1, gates});
    for (int64_t i = 0; i < gates; ++i) l.set(i, v[static_cast<size_t>(i)]);
    return constant(l);
  };
  return {part(kW, false), part(kU, false), part(kB, true), part(kC, true)};
}

/// The states of lstm (4 gates), gru (3) or simple_rnn (1) over the input from `first` on, in steps of `by`.
Values states_of(int gates, const Values& input) {
  Values out;
  double h = 0, cell = 0;
  for (double x : input) {
    double in[4], rec[4];
    for (size_t g = 0; g < 4; ++g) in[g] = x * kW[g] + kB[g], rec[g] = h * kU[g] + kC[g];
    if (gates == 1) h = std::tanh(in[0] + rec[0]);
    if (gates == 3) {
      double r = sigmoid(in[0] + rec[0]), z = sigmoid(in[1] + rec[1]), n = std::tanh(in[2] + r * rec[2]);
      h = (1 - z) * n + z * h;
    }
    if (gates == 4) {
      cell = sigmoid(in[1] + rec[1]) * cell + sigmoid(in[0] + rec[0]) * std::tanh(in[2] + rec[2]);
      h = sigmoid(in[3] + rec[3]) * std::tanh(cell);
    }
    out.push_back(h);
  }
  return out;
}

TEST(Recurrent, layers_follow_their_formulas) {
  Literal x = vec(kInput, {1, 3, 1});
  expect_near(eval([](Tensor t) { return nn::simple_rnn(t, scalar_layer(1)).outputs; }, x), states_of(1, kInput));
  expect_near(eval([](Tensor t) { return nn::gru(t, scalar_layer(3)).outputs; }, x), states_of(3, kInput));
  expect_near(eval([](Tensor t) { return nn::lstm(t, scalar_layer(4)).outputs; }, x), states_of(4, kInput));
  expect_near(eval([](Tensor t) { return nn::lstm(t, scalar_layer(4)).hidden; }, x), {states_of(4, kInput)[2]});
}

TEST(Recurrent, lengths_and_directions) {
  // The second example has two elements.
  Literal x = vec({0.5, -1, 2, 0.5, -1, 7}, {2, 3, 1}), lengths = vec({3, 2}, {2}, i32);
  Values there = states_of(4, kInput), back = states_of(4, {2, -1, 0.5}), short_back = states_of(4, {-1, 0.5});
  auto both = [](Tensor t, Tensor n) { return nn::bidirectional(nn::lstm, t, scalar_layer(4), scalar_layer(4), n); };
  expect_near(eval(both, x, lengths), {there[0], back[2], there[1], back[1], there[2], back[0], there[0], short_back[1],
                                       there[1], short_back[0], 0, 0});
  auto last = [](Tensor t, Tensor n) { return nn::gru(t, scalar_layer(3), {.lengths = n}).hidden; };
  expect_near(eval(last, x, lengths), {states_of(3, kInput)[2], states_of(3, kInput)[1]});
  std::string text = error_of([&] { eval([](Tensor t) { return nn::gru(t, scalar_layer(4)).outputs; }, x); });
  EXPECT_NE(text.find("gru: x f32[2,3,1] with w f32[1,4] and u f32[1,4], expected"), std::string::npos) << text;
}

TEST(Lora, is_a_linear_layer_with_the_merged_weight) {
  Literal x = vec({1, 2, 3, -1, 0, 4}, {2, 3}), w = vec({1, 0, 2, 1, -1, 3}, {3, 2});
  Literal a = vec({1, -2, 0.5}, {3, 1}), b = vec({2, -1}, {1, 2});
  auto by_parts = [](Tensor x, Tensor w, Tensor a, Tensor b) { return nn::lora_linear(x, w, {a, b}, 8); };
  auto merged = [](Tensor x, Tensor w, Tensor a, Tensor b) { return matmul(x, nn::lora_merge(w, {a, b}, 8)); };
  Values want = eval(merged, x, w, a, b);
  EXPECT_EQ(eval(by_parts, x, w, a, b), want);
  EXPECT_EQ(want[0], 1 + 4 - 3 + 8 * (1 - 4 + 1.5) * 2);
  auto back = [](Tensor w, Tensor a, Tensor b) { return nn::lora_unmerge(nn::lora_merge(w, {a, b}, 8), {a, b}, 8); };
  EXPECT_EQ(eval(back, w, a, b), (Values{1, 0, 2, 1, -1, 3}));
}

TEST(Lora, four_bit_weights) {
  Literal x = vec({1, 2}, {1, 2}), w = vec({1, -1, 0, 1, 2, 0, -2, 2}, {2, 4});  // all in the codebook
  auto linear = [](Tensor x, Tensor w) { return nn::nf4_linear(x, quantize_nf4(w, 4), 2, 4); };
  expect_near(eval(linear, x, w), {5, -1, -4, 5});
}

// ---- Transformer layers with random weights

template <class Layer, class Spec>
Layer random_layer(const Spec& spec) {
  Layer layer;
  Spec copy = spec;
  auto specs = leaves_of<nabla::Spec>(copy);
  auto tensors = leaves_of<Tensor>(layer);
  Tensor key = constant(vec({3, 4}, {2}, u32));
  for (size_t i = 0; i < specs.size(); ++i)
    *tensors[i].second =
        rng_uniform(fold_in(key, static_cast<uint32_t>(i)), specs[i].second->type().shape, f32, -0.5, 0.5);
  return layer;
}

TEST(Transformer, a_decoder_sees_no_later_position_and_no_masked_key) {
  Values numbers;
  for (int i = 0; i < 12; ++i) numbers.push_back(std::sin(i));
  Literal x = vec(numbers, {1, 3, 4}), memory = vec({1, 0, -1, 2, 5, 5, 5, -5}, {1, 2, 4});
  Literal mask = vec({1, 0}, {1, 1, 1, 2}, DType::kBool);
  auto layer = [](Tensor t, Tensor m, Tensor k) {
    auto p = random_layer<nn::DecoderLayer<Tensor>>(nn::decoder_layer_spec(4, 8));
    return nn::decoder_layer(t, m, p, 2, broadcast_to(k, {1, 1, 3, 2}));
  };
  Values before = eval(layer, x, memory, mask);
  for (int64_t i = 8; i < 12; ++i) x.set(i, 3 - static_cast<double>(i % 3));  // the last position
  for (int64_t i = 4; i < 8; ++i) memory.set(i, 0.5);                         // the masked key
  Values after = eval(layer, x, memory, mask);
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(before[i], after[i], 1e-6) << i;
  EXPECT_GT(std::fabs(before[9] - after[9]), 1e-3);
  memory.set(0, 3);  // a key that is seen
  EXPECT_GT(std::fabs(eval(layer, x, memory, mask)[0] - after[0]), 1e-4);
}

TEST(Transformer, an_encoder_does_not_know_the_order_of_positions) {
  Values numbers;
  for (int i = 0; i < 12; ++i) numbers.push_back(std::cos(i));
  auto layer = [](Tensor t) {
    auto p = random_layer<nn::EncoderLayer<Tensor>>(nn::encoder_layer_spec(4, 8));
    return nn::encoder_layer(t, p, {.heads = 2});
  };
  Values forward = eval(layer, vec(numbers, {1, 3, 4}));
  Values swapped = eval([layer](Tensor t) { return reverse(layer(reverse(t, {1})), {1}); }, vec(numbers, {1, 3, 4}));
  expect_near(swapped, forward, 1e-5);
  EXPECT_GT(std::fabs(forward[0] - numbers[0]), 1e-3);
}

TEST(Transformer, dropout_of_weights_follows_from_the_key) {
  Values numbers;
  for (int i = 0; i < 24; ++i) numbers.push_back(std::cos(i));
  Literal x = vec(numbers, {1, 6, 4});
  auto with = [&](double dropout, uint32_t word) {
    return eval(
        [=](Tensor t) {
          auto p = random_layer<nn::EncoderLayer<Tensor>>(nn::encoder_layer_spec(4, 8));
          nn::AttentionOptions options{.heads = 2, .causal = true, .dropout = dropout};
          if (dropout > 0) options.key = fold_in(zeros({2}, u32), word);
          return nn::encoder_layer(t, p, options);
        },
        x);
  };
  EXPECT_EQ(with(0.5, 1), with(0.5, 1));
  EXPECT_NE(with(0.5, 1), with(0.5, 2));
  EXPECT_NE(with(0.5, 1), with(0, 0));
  std::string text = error_of([&] {
    eval(
        [](Tensor t) {
          auto p = random_layer<nn::EncoderLayer<Tensor>>(nn::encoder_layer_spec(4, 8));
          return nn::encoder_layer(t, p, {.dropout = 0.5});
        },
        x);
  });
  EXPECT_NE(text.find("dropout is 0.5 without a key"), std::string::npos) << text;
}

}  // namespace
}  // namespace nabla
