// Functions made of several ops, against numbers worked out by hand or by NumPy.
#include "frontend/cpp/array.h"

#include <gtest/gtest.h>

#include "frontend/cpp/program.h"
#include "frontend/cpp/quantize.h"
#include "frontend/cpp/test_values.h"

namespace nabla {
namespace {

void expect_close(const Values& got, const Values& want) { expect_near(got, want, 1e-5); }

TEST(Array, floor_divide_and_mod_follow_python) {
  Literal a = vec({7, -7, 7, -7}), b = vec({2, 2, -2, -2});
  EXPECT_EQ(eval([](Tensor x, Tensor y) { return floor_divide(x, y); }, a, b), (Values{3, -4, -4, 3}));
  EXPECT_EQ(eval([](Tensor x, Tensor y) { return mod(x, y); }, a, b), (Values{1, 1, -1, -1}));
  Literal ia = vec({7, -7, 7, -7}, {}, i32), ib = vec({2, 2, -2, -2}, {}, i32);
  EXPECT_EQ(eval([](Tensor x, Tensor y) { return floor_divide(x, y); }, ia, ib), (Values{3, -4, -4, 3}));
  EXPECT_EQ(eval([](Tensor x, Tensor y) { return mod(x, y); }, ia, ib), (Values{1, 1, -1, -1}));
}

TEST(Array, statistics) {
  Literal x = vec({1, 2, 3, 4, 6, 8}, {2, 3});
  expect_close(eval([](Tensor t) { return var(t, {1}); }, x), {2.0 / 3, 8.0 / 3});
  expect_close(eval([](Tensor t) { return stddev(t, {-1}, false, 1); }, x), {1, 2});
  EXPECT_EQ(eval([](Tensor t) { return prod(t, {0}); }, x), (Values{4, 12, 24}));
  EXPECT_EQ(eval([](Tensor t) { return any(gt(t, 7), {1}); }, x), (Values{0, 1}));
  EXPECT_EQ(eval([](Tensor t) { return all(t); }, x), (Values{1}));
  EXPECT_EQ(eval([](Tensor t) { return minmax(t).second - minmax(t).first; }, x), (Values{7}));
}

TEST(Array, shapes) {
  Literal x = vec({0, 1, 2, 3, 4, 5}, {2, 3});
  EXPECT_EQ(eval([](Tensor t) { return tile(t, {1, 2}); }, x), (Values{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(eval([](Tensor t) { return repeat(t, 2, 0); }, x), (Values{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(eval([](Tensor t) { return repeat(t, 2, -1); }, x), (Values{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
  EXPECT_EQ(eval([](Tensor t) { return split(t, 3, 1)[2]; }, x), (Values{2, 5}));
  EXPECT_EQ(eval([](Tensor t) { return unbind(t, 0)[1]; }, x), (Values{3, 4, 5}));
  EXPECT_EQ(eval(
                [](Tensor t) {
                  return stack({t, t + 10}, 2);
                },
                x),
            (Values{0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15}));
  EXPECT_EQ(eval([](Tensor t) { return moveaxis(t, 0, 1); }, x), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(eval([](Tensor t) { return squeeze(unsqueeze(flatten(t), 0)); }, x), (Values{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(eval([](Tensor t) { return arange(1, 2.5, 0.5) + 0 * sum(t); }, x), (Values{1, 1.5, 2}));
  std::string text = error_of([&] { eval([](Tensor t) { return split(t, 2, 1)[0]; }, x); });
  EXPECT_NE(text.find("split: 2 parts of the 3 elements along axis 1"), std::string::npos) << text;
}

TEST(Array, triangles) {
  Literal x = vec({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3});
  EXPECT_EQ(eval([](Tensor t) { return tril(t); }, x), (Values{1, 0, 0, 4, 5, 0, 7, 8, 9}));
  EXPECT_EQ(eval([](Tensor t) { return tril(t, -1); }, x), (Values{0, 0, 0, 4, 0, 0, 7, 8, 0}));
  EXPECT_EQ(eval([](Tensor t) { return triu(t, 1); }, x), (Values{0, 2, 3, 0, 0, 6, 0, 0, 0}));
}

TEST(Array, sorting) {
  Literal x = vec({3, 1, 2, 0, 5, 4}, {2, 3});
  EXPECT_EQ(eval([](Tensor t) { return sort(t); }, x), (Values{1, 2, 3, 0, 4, 5}));
  EXPECT_EQ(eval([](Tensor t) { return sort(t, 0, true); }, x), (Values{3, 5, 4, 0, 1, 2}));
  // The second key decides where the first ties; the values follow.
  Literal first = vec({1, 0, 1, 0}), second = vec({2, 9, 1, 8});
  auto by_two = [](Tensor a, Tensor b) { return sort({a, b, a * 10 + b}, 2)[2]; };
  EXPECT_EQ(eval(by_two, first, second), (Values{8, 9, 11, 12}));
  EXPECT_EQ(eval([](Tensor t) { return top_k(t, 2, 1)[0]; }, x), (Values{3, 2, 5, 4}));
}

TEST(Array, selection) {
  Literal x = vec({0, 3, 0, 5, 0, 7}, {2, 3});
  EXPECT_EQ(eval([](Tensor t) { return nonzero(t, 4); }, x), (Values{0, 1, 1, 0, 1, 2, -1, -1}));
  EXPECT_EQ(eval([](Tensor t) { return nonzero(t, 2); }, x), (Values{0, 1, 1, 0}));
  EXPECT_EQ(eval([](Tensor t) { return masked_select(t, gt(t, 4), 3, -1); }, x), (Values{5, 7, -1}));
  Literal at = vec({2, 0}, {2, 1}, i32), rows = vec({1, 1, 0}, {}, i32);
  EXPECT_EQ(eval([](Tensor t, Tensor i) { return take_along_axis(t, i, 1); }, x, at), (Values{0, 5}));
  EXPECT_EQ(eval([](Tensor t, Tensor i) { return take(t, i, 0); }, x, rows), (Values{5, 0, 7, 5, 0, 7, 0, 3, 0}));
  EXPECT_EQ(eval([](Tensor t, Tensor i) { return take(t, i, 1); }, x, rows), (Values{3, 3, 0, 0, 0, 5}));
}

TEST(Array, dropout_keeps_the_mean) {
  Literal key = vec({1, 2}, {2}, u32), x = vec(Values(4000, 1));
  Values y = eval([](Tensor t, Tensor k) { return dropout(t, k, 0.25); }, x, key);
  double sum = 0;
  for (double v : y) {
    EXPECT_TRUE(v == 0 || std::abs(v - 4.0 / 3) < 1e-6) << v;
    sum += v;
  }
  EXPECT_NEAR(sum / 4000, 1, 0.05);
  Values z = eval([](Tensor k) { return randint(k, {500}, -2, 3); }, key);
  EXPECT_EQ(*std::min_element(z.begin(), z.end()), -2);
  EXPECT_EQ(*std::max_element(z.begin(), z.end()), 2);
  const int64_t third = int64_t{1} << 29;  // of a span that 32 random bits do not divide evenly
  Values wide = eval([&](Tensor k) { return randint(k, {3000}, 0, 3 * third); }, key);
  for (int64_t i = 0; i < 3; ++i) {
    auto inside = [&](double v) { return v >= i * third && v < (i + 1) * third; };
    EXPECT_NEAR(std::count_if(wide.begin(), wide.end(), inside), 1000, 130) << i;
  }
}

TEST(Array, activations) {
  Literal x = vec({-4, -1, 0, 2});
  EXPECT_EQ(eval([](Tensor t) { return leaky_relu(t, 0.5); }, x), (Values{-2, -0.5, 0, 2}));
  expect_close(eval([](Tensor t) { return elu(t, 2); }, x), {-1.963369, -1.264241, 0, 2});
  expect_close(eval([](Tensor t) { return log_sigmoid(t); }, x), {-4.018150, -1.313262, -0.693147, -0.126928});
  expect_close(eval([](Tensor t) { return hard_swish(t); }, x), {0, -1.0 / 3, 0, 5.0 / 3});
  expect_close(eval([](Tensor t) { return mish(t); }, x), {-0.072592, -0.303401, 0, 1.943959});
  expect_close(eval([](Tensor t) { return digamma(t + 5); }, x), {-0.577216, 1.256118, 1.506118, 1.872784});
  // Published values; psi(-1/2) = psi(1/2) + 2, psi1(-1/2) = psi1(1/2) + 4.
  expect_close(eval([](Tensor t) { return digamma(t); }, vec({-0.5, 0.5})), {0.0364900, -1.9635100});
  expect_close(eval([](Tensor t) { return polygamma(t, 1); }, vec({-0.5, 0.5})), {8.934802, 4.934802});
  expect_close(eval([](Tensor t) { return zeta(t, 1); }, vec({2, 3, 4, 1.5})),
               {1.644934, 1.2020569, 1.0823232, 2.6123753});
  expect_close(eval([](Tensor t) { return zeta(2, t); }, vec({0.5, 2})), {4.934802, 0.644934});
  expect_close(eval([](Tensor t) { return bessel_i0(t); }, vec({0, 1, -2})), {1, 1.266066, 2.279585});
  expect_close(eval([](Tensor t) { return bessel_i1(t); }, vec({0, 1, -2})), {0, 0.565159, -1.590637});
  expect_close(eval([](Tensor t) { return bessel_i0e(t); }, vec({10, 100})), {0.1278333, 0.0399437});
}

TEST(Quantize, blocks_keep_their_largest_element) {
  Literal x = vec({1, -2, 0.5, 0, 10, 3, 0, 0}, {2, 4});
  auto scales = [](Tensor t) { return quantize(t, 2).scales; };
  expect_close(eval(scales, x), {2.0 / 127, 0.5 / 127, 10.0 / 127, 1});
  auto back = [](Tensor t) {
    Quantized q = quantize(t, 2);
    return dequantize(q.values, q.scales);
  };
  expect_close(eval(back, x), {64 * 2.0 / 127, -2, 0.5, 0, 10, 38 * 10.0 / 127, 0, 0});
  auto nf4 = [](Tensor t) { return dequantize_nf4(quantize_nf4(t, 4), t.shape()); };
  expect_close(eval(nf4, x), {2 * 0.4407098, -2, 2 * 0.2461123, 0, 10, 3.379152, 0, 0});
}

TEST(Einsum, products_diagonals_and_sums) {
  Literal a = vec({1, 2, 3, 4, 5, 6}, {2, 3}), b = vec({1, 0, 0, 1, 1, 1}, {3, 2}), s = vec({1, 2, 3, 4}, {2, 2});
  auto of = [](const char* spec) { return [spec](Tensor x, Tensor y) { return einsum(spec, {x, y}); }; };
  EXPECT_EQ(eval(of("ij,jk->ik"), a, b), (Values{4, 5, 10, 11}));
  EXPECT_EQ(eval(of("ij,jk"), a, b), (Values{4, 5, 10, 11}));
  EXPECT_EQ(eval(of("ij,jk->ki"), a, b), (Values{4, 10, 5, 11}));
  EXPECT_EQ(eval(of("ij,jk->"), a, b), (Values{30}));
  EXPECT_EQ(eval(of("ij,kl->ikjl"), s, s), (Values{1, 2, 2, 4, 3, 4, 6, 8, 3, 6, 4, 8, 9, 12, 12, 16}));
  EXPECT_EQ(eval(of("...j,jk->...k"), a, b), (Values{4, 5, 10, 11}));
  EXPECT_EQ(eval(of("bi,bi->b"), a, a), (Values{14, 77}));
  EXPECT_EQ(eval([](Tensor x) { return einsum("ii->i", {x}); }, s), (Values{1, 4}));
  EXPECT_EQ(eval([](Tensor x) { return einsum("ij->ji", {x}); }, s), (Values{1, 3, 2, 4}));
  EXPECT_EQ(eval([](Tensor x) { return einsum("ij,jk,kl->il", {x, x, x}); }, s), (Values{37, 54, 81, 118}));
  std::string text = error_of([&] { eval(of("ij,ik->jk"), a, b); });
  EXPECT_NE(text.find("einsum \"ij,ik->jk\": `i` is 2 and 3"), std::string::npos) << text;
}

}  // namespace
}  // namespace nabla
