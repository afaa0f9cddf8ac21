// oneDNN calls against plain loops, on one and on three threads.
#include "runtime/device/onednn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "runtime/base/literal.h"

namespace nabla::device {
namespace {

Literal noise(DType dtype, std::vector<int64_t> shape, uint32_t seed) {
  Literal out(dtype, std::move(shape));
  uint32_t x = seed * 2654435761u + 1;
  for (int64_t i = 0; i < out.size(); ++i) {
    x = x * 1664525u + 1013904223u;
    out.set(i, static_cast<double>(x >> 20) / 2048.0 - 1.0);
  }
  return out;
}

void expect_near(const Literal& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), static_cast<int64_t>(expected.size()));
  for (int64_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual.get(i), expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "at " << i;
}

class OneDnnTest : public testing::TestWithParam<int> {
 protected:
  OneDnnTest() : pool_(GetParam()) {
    auto opened = OneDnn::open("libdnnl.so.2", "2.6", pool_);
    if (opened.ok()) dnn_ = std::move(opened).value();
  }
  void SetUp() override {
    if (dnn_ == nullptr) GTEST_SKIP() << "libdnnl.so.2 is not installed";
  }
  void check_gemm(GemmSpec s, double tolerance);
  void check_convolution(ConvolutionSpec s);
  ThreadPool pool_;
  std::unique_ptr<OneDnn> dnn_;
};

void OneDnnTest::check_gemm(GemmSpec s, double tolerance) {
  s.lda = (s.transpose_a ? s.m : s.k) + 1;
  s.ldb = (s.transpose_b ? s.k : s.n) + 2;
  s.ldc = s.n;
  s.stride_a = s.lda * (s.transpose_a ? s.k : s.m);
  s.stride_b = s.ldb * (s.transpose_b ? s.n : s.k);
  s.stride_c = s.m * s.n;
  Literal a = noise(s.dtype, {s.batch * s.stride_a}, 1), b = noise(s.dtype, {s.batch * s.stride_b}, 2);
  Literal c = noise(s.dtype, {s.batch * s.stride_c}, 3);
  auto call = dnn_->gemm(s);
  ASSERT_TRUE(call.ok()) << to_string(call.errors());
  void* operands[] = {a.mutable_data(), b.mutable_data(), c.mutable_data()};
  ASSERT_TRUE((*call)->run(operands));
  std::vector<double> expected;
  for (int64_t g = 0; g < s.batch; ++g)
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < s.k; ++k)
          sum += a.get(g * s.stride_a + (s.transpose_a ? k * s.lda + i : i * s.lda + k)) *
                 b.get(g * s.stride_b + (s.transpose_b ? j * s.ldb + k : k * s.ldb + j));
        expected.push_back(sum);
      }
  expect_near(c, expected, tolerance);
}

TEST_P(OneDnnTest, GemmAgreesWithPlainLoops) {
  for (const char* implementation : {"matmul", "sgemm"})
    for (bool ta : {false, true})
      for (bool tb : {false, true}) {
        GemmSpec s{{.transpose_a = ta, .transpose_b = tb}, implementation};
        s.m = 5, s.n = 7, s.k = 3;
        check_gemm(s, 1e-5);
        s.m = 130, s.n = 65, s.k = 70;  // several blocks of rows, the last one smaller
        check_gemm(s, 2e-5);
        s.m = 4, s.n = 600, s.k = 300;  // cut by columns
        check_gemm(s, 5e-5);
        s.batch = 5, s.m = 33, s.n = 40, s.k = 50;
        check_gemm(s, 2e-5);
        s.batch = 2, s.m = 1, s.n = 5, s.k = 3 * 8192 + 5;  // a vector, in several parts of its terms
        check_gemm(s, 2e-4);
        s.m = 6, s.n = 1;
        check_gemm(s, 2e-4);
      }
}

TEST_P(OneDnnTest, GemmOverNothingIsZero) {
  GemmSpec s{{.m = 3, .n = 4, .k = 0}, "matmul"};
  check_gemm(s, 0);
}

// oneDNN multiplies bf16 where the CPU has AVX-512, and refuses it elsewhere.
TEST_P(OneDnnTest, ABf16GemmIsRoundedOnceOrRefused) {
  GemmSpec s{{.dtype = DType::kBF16, .m = 64, .n = 48, .k = 80}, "matmul"};
  if (__builtin_cpu_supports("avx512bw")) return check_gemm(s, 1.0 / 128);
  s.lda = s.k, s.ldb = s.n, s.ldc = s.n;
  auto call = dnn_->gemm(s);
  ASSERT_FALSE(call.ok());
  EXPECT_EQ(call.errors()[0].code, Code::kMissingLibrary);
  EXPECT_EQ(call.errors()[0].message, "the installed oneDNN has no bf16 matmul of 64x48x80 for this CPU");
}

TEST_P(OneDnnTest, EqualSpecsShareACall) {
  GemmSpec s{{.m = 3, .n = 4, .k = 5, .lda = 5, .ldb = 4, .ldc = 4}, "matmul"};
  EXPECT_EQ(*dnn_->gemm(s), *dnn_->gemm(s));
}

TEST_P(OneDnnTest, AnUnknownImplementationIsRefused) {
  GemmSpec s{{.m = 3, .n = 4, .k = 5, .lda = 5, .ldb = 4, .ldc = 4}, "magic"};
  EXPECT_EQ(dnn_->gemm(s).errors()[0].code, Code::kNewerVersion);
}

/// Visits every (input, filter, output) triple of a two-dimensional convolution.
void each_product(const ConvolutionSpec& s, const std::function<void(int64_t, int64_t, int64_t)>& visit) {
  const auto &in = s.input_shape, &f = s.filter_shape, &out = s.output_shape;
  int64_t per_group = out[3] / s.groups;
  for (int64_t n = 0; n < out[0]; ++n)
    for (int64_t y = 0; y < out[1]; ++y)
      for (int64_t x = 0; x < out[2]; ++x)
        for (int64_t o = 0; o < out[3]; ++o)
          for (int64_t r = 0; r < f[0]; ++r)
            for (int64_t c = 0; c < f[1]; ++c)
              for (int64_t i = 0; i < f[2]; ++i) {
                int64_t iy = y * s.strides[0] + r * s.dilations[0] - s.padding_low[0];
                int64_t ix = x * s.strides[1] + c * s.dilations[1] - s.padding_low[1];
                if (iy < 0 || iy >= in[1] || ix < 0 || ix >= in[2]) continue;
                int64_t channel = o / per_group * f[2] + i;
                visit(((n * in[1] + iy) * in[2] + ix) * in[3] + channel, ((r * f[1] + c) * f[2] + i) * f[3] + o,
                      ((n * out[1] + y) * out[2] + x) * out[3] + o);
              }
}

void OneDnnTest::check_convolution(ConvolutionSpec s) {
  for (int d = 0; d < 2; ++d) {
    int64_t window = (s.filter_shape[d] - 1) * s.dilations[d] + 1;
    s.output_shape[d + 1] = (s.input_shape[d + 1] + s.padding_low[d] + s.padding_high[d] - window) / s.strides[d] + 1;
  }
  for (uint64_t workspace : {uint64_t{0}, uint64_t{1} << 20})
    for (auto kind : {ConvolutionKind::kForward, ConvolutionKind::kInputGrad, ConvolutionKind::kFilterGrad}) {
      s.kind = kind;
      s.workspace_bytes = workspace;
      Literal arrays[] = {noise(s.dtype, s.input_shape, 1), noise(s.dtype, s.filter_shape, 2),
                          noise(s.dtype, s.output_shape, 3), Literal(DType::kU8, {1 << 20})};
      int target = kind == ConvolutionKind::kForward ? 2 : kind == ConvolutionKind::kInputGrad ? 0 : 1;
      std::vector<double> expected(arrays[target].size());
      each_product(s, [&](int64_t i, int64_t f, int64_t o) {
        if (target == 0) expected[i] += arrays[1].get(f) * arrays[2].get(o);
        if (target == 1) expected[f] += arrays[0].get(i) * arrays[2].get(o);
        if (target == 2) expected[o] += arrays[0].get(i) * arrays[1].get(f);
      });
      auto call = dnn_->convolution(s);
      ASSERT_TRUE(call.ok()) << to_string(call.errors());
      void* operands[] = {arrays[0].mutable_data(), arrays[1].mutable_data(), arrays[2].mutable_data(),
                          workspace > 0 ? arrays[3].mutable_data() : nullptr};
      ASSERT_TRUE((*call)->run(operands));
      expect_near(arrays[target], expected, 1e-4);
    }
}

TEST_P(OneDnnTest, ConvolutionsAgreeWithPlainLoops) {
  ConvolutionSpec s;
  s.input_shape = {5, 8, 9, 3};
  s.filter_shape = {3, 3, 3, 16};
  s.output_shape = {5, 0, 0, 16};
  s.strides = s.dilations = s.padding_low = s.padding_high = {1, 1};
  check_convolution(s);
  s.strides = {2, 3};
  s.padding_low = {0, 2};
  check_convolution(s);
  s.strides = {1, 1};
  s.dilations = {2, 1};
  check_convolution(s);
}

TEST_P(OneDnnTest, GroupedConvolutionsAgreeWithPlainLoops) {
  ConvolutionSpec s;
  s.input_shape = {3, 7, 7, 8};
  s.filter_shape = {3, 3, 4, 12};
  s.output_shape = {3, 0, 0, 12};
  s.strides = s.dilations = s.padding_low = s.padding_high = {1, 1};
  s.groups = 2;
  check_convolution(s);
}

INSTANTIATE_TEST_SUITE_P(Threads, OneDnnTest, testing::Values(1, 3));

TEST(OneDnn, AMissingLibraryIsE0602) {
  ThreadPool pool(1);
  auto opened = OneDnn::open("libdnnl-not-there.so.9", "", pool);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.errors()[0].code, Code::kMissingLibrary);
}

TEST(OneDnn, AnOlderLibraryThanAskedForIsE0602) {
  ThreadPool pool(1);
  auto opened = OneDnn::open("libdnnl.so.2", "2.99", pool);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.errors()[0].code, Code::kMissingLibrary);
}

}  // namespace
}  // namespace nabla::device
