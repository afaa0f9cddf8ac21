// runtime/device/cublaslt on the fake library: all transpositions, batches, wide leading dimensions and epilogues,
// against plain loops over rows; what is refused, and what is measured.
#include "runtime/device/cublaslt.h"

#include <cmath>
#include <cstdlib>

#include "tests/cuda/device_fixture.h"

namespace nabla::device {
namespace {

class Cublaslt : public DeviceTest {
 protected:
  std::unique_ptr<CublasLt> library() { return CublasLt::open("", "12.0", stream_).value(); }
  void check(const GemmProblemOf<int64_t>& problem, double tolerance);
};

double activated(Activation activation, double x) {
  if (activation == Activation::kRelu) return std::max(x, 0.0);
  if (activation == Activation::kGelu)
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x;
}

// Leading dimensions are wider than the rows by odd numbers, and what lies between is not touched.
void Cublaslt::check(const GemmProblemOf<int64_t>& problem, double tolerance) {
  GemmSpec s{problem, "cublaslt"};
  s.lda = (s.transpose_a ? s.m : s.k) + 1, s.ldb = (s.transpose_b ? s.k : s.n) + 3, s.ldc = s.n + 5;
  s.stride_a = s.lda * (s.transpose_a ? s.k : s.m) + 7, s.stride_b = s.ldb * (s.transpose_b ? s.n : s.k) + 1;
  s.stride_c = s.ldc * s.m + 2;
  Literal a = noise(s.dtype, s.batch * s.stride_a, 1), b = noise(s.dtype, s.batch * s.stride_b, 2);
  Literal bias = noise(s.dtype, s.n, 3), c(s.dtype, {s.batch * s.stride_c});
  for (int64_t i = 0; i < c.size(); ++i) c.set(i, 77);
  Literal addend = noise(s.dtype, c.size(), 4);
  CudaAddress at[] = {upload(a), upload(b), upload(c), upload(bias), upload(addend)};
  void* operands[] = {reinterpret_cast<void*>(at[0]),
                      reinterpret_cast<void*>(at[1]),
                      reinterpret_cast<void*>(at[2]),
                      reinterpret_cast<void*>(at[3]),
                      nullptr,
                      s.addend ? reinterpret_cast<void*>(at[4]) : nullptr};
  std::unique_ptr<CublasLt> lt = library();
  auto gemm = lt->call(s);
  ASSERT_TRUE(gemm.ok()) << to_string(gemm.errors());
  (*gemm)->use((*gemm)->candidates(1).value()[0]);
  ASSERT_TRUE((*gemm)->run(operands)) << (*gemm)->failure().str();
  download(c, at[2]);
  for (int64_t batch = 0; batch < s.batch; ++batch)
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = (s.bias ? bias.get(j) : 0) + (s.addend ? addend.get(batch * s.stride_c + i * s.ldc + j) : 0);
        for (int64_t k = 0; k < s.k; ++k)
          sum += a.get(batch * s.stride_a + (s.transpose_a ? k * s.lda + i : i * s.lda + k)) *
                 b.get(batch * s.stride_b + (s.transpose_b ? j * s.ldb + k : k * s.ldb + j));
        sum = activated(s.activation, sum);
        ASSERT_NEAR(c.get(batch * s.stride_c + i * s.ldc + j), sum, tolerance * std::max(1.0, std::abs(sum)))
            << (*gemm)->key() << " at " << batch << ", " << i << ", " << j;
      }
      for (int64_t j = s.n; j < s.ldc; ++j) ASSERT_EQ(c.get(batch * s.stride_c + i * s.ldc + j), 77);
    }
  for (CudaAddress memory : at) ok(cuda().memory_free(memory));
}

TEST_F(Cublaslt, RowsAreRowsInAllTranspositionsAndBatches) {
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      for (int64_t batch : {1, 3})
        for (auto [m, n, k] : {std::tuple(5, 7, 3), std::tuple(1, 9, 4), std::tuple(8, 1, 6), std::tuple(3, 4, 1)})
          check({.batch = batch, .m = m, .n = n, .k = k, .transpose_a = ta, .transpose_b = tb}, 1e-5);
}

TEST_F(Cublaslt, EpiloguesAddTheBiasToEveryRow) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu})
      for (bool bias : {false, true})
        check({.dtype = dtype, .m = 6, .n = 11, .k = 5, .activation = activation, .bias = bias},
              dtype == DType::kF32 ? 1e-5 : dtype == DType::kF16 ? 1e-3 : 1e-2);
}

TEST_F(Cublaslt, AnAddendLiesAsTheResultDoes) {
  for (bool bias : {false, true})
    for (Activation activation : {Activation::kNone, Activation::kRelu})
      check({.m = 6, .n = 11, .k = 5, .activation = activation, .bias = bias, .addend = true}, 1e-5);
  check({.batch = 3, .m = 6, .n = 11, .k = 5, .transpose_a = true, .addend = true}, 1e-5);
  check({.dtype = DType::kBF16, .m = 6, .n = 11, .k = 5, .addend = true}, 1e-2);
  check({.dtype = DType::kF64, .batch = 2, .m = 6, .n = 11, .k = 5, .addend = true}, 1e-12);
}

TEST_F(Cublaslt, Tf32RoundsTheFactorsAndF64IsWide) {
  check({.m = 6, .n = 11, .k = 5, .tf32 = true}, 4e-3);
  check({.dtype = DType::kF64, .batch = 2, .m = 6, .n = 11, .k = 5, .transpose_a = true}, 1e-12);
}

// What an algorithm needs decides which are offered.
TEST_F(Cublaslt, CandidatesFitTheWorkspaceAndTheAlignment) {
  std::unique_ptr<CublasLt> lt = library();
  auto offered = [&](int64_t workspace, int64_t alignment) {
    GemmSpec s{{.m = 8, .n = 8, .k = 8, .lda = 8, .ldb = 8, .ldc = 8}, "cublaslt", workspace, alignment};
    return lt->call(s).value()->candidates(8).value().size();
  };
  EXPECT_EQ(offered(4 << 20, 256), 3u);
  EXPECT_EQ(offered(4 << 20, 4), 1u);
  EXPECT_EQ(offered(0, 256), 2u);
}

// Of 8-bit floats k must be fastest in both, rows 16 bytes apart, one e4m3, and the chip must have them.
TEST_F(Cublaslt, WhichProductsOfBytesThereAre) {
  std::unique_ptr<CublasLt> lt = library();
  auto offered = [&](GemmProblemOf<int64_t> p) {
    EXPECT_TRUE(p.complete());
    auto found = lt->call({p, "cublaslt", 4 << 20}).value()->candidates(8);
    return found.ok() ? found->size() : 0;
  };
  using Problem = GemmProblemOf<int64_t>;
  const Problem fits{.dtype = DType::kF8E4M3, .m = 6, .n = 32, .k = 48, .transpose_b = true, .dtype_b = DType::kF8E5M2,
                     .dtype_c = DType::kBF16};
  EXPECT_EQ(offered(fits), 2u);
  auto but = [&](auto change) {
    Problem p = fits;
    change(p);
    return offered(p);
  };
  EXPECT_EQ(but([](Problem& p) { p.dtype_c = DType::kF32; }), 2u);
  EXPECT_EQ(but([](Problem& p) { p.transpose_b = false; }), 0u);
  EXPECT_EQ(but([](Problem& p) { p.transpose_a = true, p.m = 16; }), 0u);
  EXPECT_EQ(but([](Problem& p) { p.dtype = DType::kF8E5M2; }), 0u);
  EXPECT_EQ(but([](Problem& p) { p.k = 40; }), 0u);
  EXPECT_EQ(but([](Problem& p) { p.n = 24; }), 0u);
  EXPECT_EQ(but([](Problem& p) { p.dtype_c = DType::kF32, p.bias = true; }), 0u);
  setenv("NABLA_FAKE_CUDA_CAPABILITY", "8.0", 1);
  EXPECT_EQ(offered(fits), 0u);
  unsetenv("NABLA_FAKE_CUDA_CAPABILITY");
}

TEST_F(Cublaslt, AnAlgorithmOfAnotherProblemIsNotAccepted) {
  std::unique_ptr<CublasLt> lt = library();
  GemmSpec s{{.m = 8, .n = 8, .k = 8, .lda = 8, .ldb = 8, .ldc = 8}, "cublaslt"};
  LibraryAlgorithm algorithm = lt->call(s).value()->candidates(1).value()[0];
  EXPECT_TRUE(lt->call(s).value()->accepts(algorithm));
  s.m = 4;
  EXPECT_FALSE(lt->call(s).value()->accepts(algorithm));
}

TEST_F(Cublaslt, WhatCannotBeUsedIsE0602) {
  auto why = [&] {
    auto opened = CublasLt::open("", "12.0", stream_);
    return opened.ok() ? "ok" : fmt::format("{} {}", code_name(opened.errors()[0].code), opened.errors()[0].message);
  };
  setenv("NABLA_FAKE_CUBLASLT_VERSION", "110803", 1);
  EXPECT_EQ(why(), "E0602 cuBLASLt cannot be used: it is version 11.8.3; needed is 12.0");
  unsetenv("NABLA_FAKE_CUBLASLT_VERSION");
  setenv("NABLA_FAKE_CUBLASLT_FAIL", "cublasLtCreate:0:1", 1);
  EXPECT_EQ(why(), "E0602 cuBLASLt cannot be used: it makes no handle: CUBLAS_STATUS_NOT_INITIALIZED (1)");
  unsetenv("NABLA_FAKE_CUBLASLT_FAIL");
  setenv("NABLA_CUBLASLT", "/not/there.so", 1);
  EXPECT_EQ(why(),
            "E0602 cuBLASLt cannot be used: /not/there.so: cannot open shared object file: No such file or directory");
  setenv("NABLA_CUBLASLT", runfile("tests/cuda/fake_driver/libfake_cuda.so").c_str(), 1);
  EXPECT_EQ(why(), "E0602 cuBLASLt cannot be used: it has no function cublasLtGetStatusName");
}

TEST_F(Cublaslt, RefusalsAndFailuresSayTheStatus) {
  std::unique_ptr<CublasLt> lt = library();
  GemmSpec s{{.dtype = DType::kBF16, .m = 8, .n = 8, .k = 8, .lda = 8, .ldb = 8, .ldc = 8}, "cublaslt"};
  setenv("NABLA_FAKE_CUBLASLT_FAIL", "cublasLtMatmulAlgoGetHeuristic:0:15", 1);
  auto none = lt->call(s).value()->candidates(8);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.errors()[0].message,
            "cuBLASLt 13.1.0 has no algorithm for gemm bf16 1x8x8x8 nn ld 8,8,8 align 256: CUBLAS_STATUS_NOT_SUPPORTED "
            "(15)");
  setenv("NABLA_FAKE_CUBLASLT_FAIL", "cublasLtMatmulDescCreate:0:7", 1);
  EXPECT_EQ(lt->call(s).errors()[0].message,
            "cuBLASLt cannot describe gemm bf16 1x8x8x8 nn ld 8,8,8 align 256: CUBLAS_STATUS_INVALID_VALUE (7)");
  unsetenv("NABLA_FAKE_CUBLASLT_FAIL");
  auto gemm = std::move(lt->call(s).value());
  gemm->use(gemm->candidates(1).value()[0]);
  setenv("NABLA_FAKE_CUBLASLT_FAIL", "cublasLtMatmul:0:13", 1);
  void* operands[5] = {};
  EXPECT_FALSE(gemm->run(operands));
  EXPECT_EQ(gemm->failure().str(),
            "error[E0607]: calling cuBLASLt: CUBLAS_STATUS_EXECUTION_FAILED (13)\n"
            "   = help: run again with --sync-debug to see which instruction it was\n");
  s.implementation = "sgemm";
  EXPECT_EQ(lt->call(s).errors()[0].code, Code::kNewerVersion);
}

}  // namespace
}  // namespace nabla::device
