// Linear algebra and Fourier transforms against published examples and identities.
#include "frontend/cpp/linalg.h"

#include <gtest/gtest.h>

#include <cmath>

#include "frontend/cpp/fft.h"
#include "frontend/cpp/test_values.h"

namespace nabla {
namespace {

TEST(Linalg, factors_of_published_matrices) {
  Literal spd = vec({4, 12, -16, 12, 37, -43, -16, -43, 98}, {3, 3});
  expect_near(eval([](Tensor a) { return cholesky(a); }, spd), {2, 0, 0, 6, 1, 0, -8, 5, 3});
  Literal a = vec({12, -51, 4, 6, 167, -68, -4, 24, -41}, {3, 3});
  expect_near(eval([](Tensor x) { return qr(x)[1]; }, a), {14, 21, -14, 0, 175, -70, 0, 0, 35}, 1e-4);
  expect_near(eval([](Tensor x) { return qr(x)[0]; }, a),
              {6.0 / 7, -69.0 / 175, -58.0 / 175, 3.0 / 7, 158.0 / 175, 6.0 / 175, -2.0 / 7, 6.0 / 35, -33.0 / 35});
  Literal chain = vec({2, -1, 0, -1, 2, -1, 0, -1, 2}, {3, 3});
  expect_near(eval([](Tensor x) { return eigh(x)[0]; }, chain), {2 - std::sqrt(2.0), 2, 2 + std::sqrt(2.0)});
  expect_near(eval([](Tensor x) { return lu(x)[0]; }, vec({1, 2, 3, 4}, {2, 2})), {3, 4, 1.0 / 3, 2.0 / 3});
  EXPECT_EQ(eval([](Tensor x) { return lu(x)[1]; }, vec({1, 2, 3, 4}, {2, 2})), (Values{1, 0}));
}

TEST(Linalg, factors_multiply_to_the_matrix) {
  Literal a = vec({1, 2, 0, -1, 3, 5, 2, 2, -7, 0, 1, 4}, {2, 3, 2}),
          plain = vec({1, 2, 0, -1, 3, 5, 2, 2, -7, 0, 1, 4});
  Values want;
  for (int64_t i = 0; i < plain.size(); ++i) want.push_back(plain.get(i));
  auto by_svd = [](Tensor x) {
    auto [u, s, vh] = svd(x);
    return matmul(u * unsqueeze(s, -2), vh);
  };
  expect_near(eval(by_svd, a), want);
  expect_near(eval([by_svd](Tensor x) { return transpose(by_svd(transpose(x))); }, a), want);
  auto by_qr = [](Tensor x) {
    auto [q, r] = qr(x);
    return matmul(q, r);
  };
  expect_near(eval(by_qr, a), want);
  auto by_eigh = [](Tensor x) {
    auto [w, v] = eigh(matmul(transpose(x), x));
    return matmul(v * unsqueeze(w, -2), transpose(v)) - matmul(transpose(x), x);
  };
  expect_near(eval(by_eigh, a), Values(8, 0));
}

TEST(Linalg, a_matrix_without_full_rank_has_orthonormal_vectors_all_the_same) {
  Literal a = vec({1, 2, 3, 2, 4, 6, 0, 0, 0, 1, 2, 3}, {4, 3});
  auto product_of_u = [](Tensor x) {
    Tensor u = svd(x)[0];
    return matmul(transpose(u), u);
  };
  expect_near(eval(product_of_u, a), {1, 0, 0, 0, 1, 0, 0, 0, 1});
  expect_near(eval([](Tensor x) { return svd(x)[1]; }, a), {std::sqrt(84.0), 0, 0});
}

TEST(Linalg, systems) {
  Literal a = vec({1, 2, 3, 4}, {2, 2}), b = vec({5, 6});
  expect_near(eval([](Tensor x, Tensor y) { return solve(x, y); }, a, b), {-4, 4.5});
  expect_near(eval([](Tensor x) { return inv(x); }, a), {-2, 1, 1.5, -0.5});
  expect_near(eval([](Tensor x) { return det(x); }, a), {-2});
  expect_near(eval([](Tensor x) { return slogdet(x).first; }, a), {-1});
  expect_near(eval([](Tensor x) { return slogdet(x).second; }, a), {std::log(2.0)});
  Literal cycles = vec({0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1}, {2, 3, 3});
  EXPECT_EQ(eval([](Tensor x) { return det(x); }, cycles), (Values{1, -1}));
  Literal spd = vec({4, 2, 2, 3}, {2, 2});
  expect_near(eval([](Tensor x, Tensor y) { return matmul(x, cholesky_solve(cholesky(x), y)); }, spd, b), {5, 6});
  // A line through four points: numpy.linalg.lstsq's example.
  Literal line = vec({0, 1, 1, 1, 2, 1, 3, 1}, {4, 2}), heights = vec({-1, 0.2, 0.9, 2.1});
  expect_near(eval([](Tensor x, Tensor y) { return lstsq(x, y); }, line, heights), {1, -0.95});
  Literal singular = vec({1, 2, 2, 4}, {2, 2});
  expect_near(eval([](Tensor x) { return pinv(x); }, singular), {0.04, 0.08, 0.08, 0.16});
  EXPECT_EQ(eval([](Tensor x) { return det(x); }, singular), (Values{0}));
  for (double v : eval([](Tensor x) { return diagonal(cholesky(x - 9 * eye(2))); }, spd)) EXPECT_TRUE(std::isnan(v));
}

TEST(Linalg, norms_and_diagonals) {
  Literal a = vec({1, -2, 3, 4}, {2, 2}), b = vec({3, 0, 4, 5}, {2, 2});
  auto norm = [](const char* kind) { return [kind](Tensor x) { return matrix_norm(x, kind); }; };
  expect_near(eval(norm("fro"), a), {std::sqrt(30.0)});
  EXPECT_EQ(eval(norm("1"), a), (Values{6}));
  EXPECT_EQ(eval(norm("inf"), a), (Values{7}));
  expect_near(eval(norm("2"), b), {std::sqrt(45.0)});
  expect_near(eval(norm("nuc"), b), {4 * std::sqrt(5.0)});
  EXPECT_NE(error_of([&] { eval(norm("max"), a); }).find("matrix_norm: \"max\", expected \"fro\""), std::string::npos);
  EXPECT_EQ(eval([](Tensor x) { return diagonal(x); }, vec({1, 2, 3, 4, 5, 6}, {2, 3})), (Values{1, 5}));
  EXPECT_EQ(eval([](Tensor x) { return diag_embed(diagonal(x)); }, a), (Values{1, 0, 0, 4}));
  EXPECT_EQ(eval([](Tensor x) { return trace_of(x); }, a), (Values{5}));
  EXPECT_EQ(eval([](Tensor x) { return band_part(x, 0, 1); }, vec({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3})),
            (Values{1, 2, 0, 0, 5, 6, 0, 0, 9}));
}

Tensor both(const Complex& x) { return stack({x.re, x.im}); }

TEST(Fft, published_transforms) {
  Literal x = vec({1, 2, 3, 4}), plane = vec({1, 2, 3, 4}, {2, 2}), three = vec({1, 2, 3});
  auto of = [](Tensor t) { return Complex{t, zeros_like(t)}; };
  expect_near(eval([of](Tensor t) { return both(fft(of(t))); }, x), {10, -2, -2, -2, 0, 2, 0, -2});
  expect_near(eval([of](Tensor t) { return both(ifft(fft(Complex{t, 2 * t}))); }, x), {1, 2, 3, 4, 2, 4, 6, 8});
  expect_near(eval([](Tensor t) { return both(rfft(t)); }, three), {6, -1.5, 0, std::sqrt(0.75)});
  for (const Literal& l : {x, three}) {
    int64_t n = l.size();
    Values want;
    for (int64_t i = 0; i < n; ++i) want.push_back(l.get(i));
    expect_near(eval([n](Tensor t) { return irfft(rfft(t), n); }, l), want);
  }
  expect_near(eval([of](Tensor t) { return fft2(of(t)).re; }, plane), {10, -2, -4, 0});
  expect_near(eval([of](Tensor t) { return ifft2(fft2(of(t))).re; }, plane), {1, 2, 3, 4});
  expect_near(eval([of](Tensor t) { return fft(of(t), 0).re; }, plane), {4, 6, -2, -2});
  expect_near(eval([](Tensor t) { return fftfreq(5, 0.5) + 0 * sum(t); }, x), {0, 0.4, 0.8, -0.8, -0.4});
  std::string text = error_of([&] { eval([](Tensor t) { return irfft(rfft(t), 6); }, x); });
  EXPECT_NE(text.find("irfft: 3 elements along axis -1 for 6 real ones, expected 4"), std::string::npos) << text;
}

TEST(Fft, a_product_of_transforms_is_a_circular_convolution) {
  Literal a = vec({1, 2, 0, 3, 5, 1, 2}), b = vec({1, 0, 0, 2, 0, 0, 0});
  Values want;
  for (int64_t i = 0; i < 7; ++i) want.push_back(a.get(i) + 2 * a.get((i + 4) % 7));
  auto convolved = [](Tensor x, Tensor y) {
    return ifft(fft(Complex{x, zeros_like(x)}) * fft(Complex{y, zeros_like(y)})).re;
  };
  expect_near(eval(convolved, a, b), want);
}

}  // namespace
}  // namespace nabla
