// What NVRTC makes of generated kernels, in the instructions of the GPU: wide accesses, nothing in local memory.
#include <gtest/gtest.h>

#include "codegen/cuda/printer.h"
#include "ir/kernel_ir/kernel.h"
#include "tests/cuda/compiling.h"

namespace nabla::codegen {
namespace {

std::vector<CudaKernelFacts> facts_of(const std::string& kernel, const std::string& target) {
  kernel_ir::Kernel k = kernel_ir::parse_kernel(kernel, "kernel").value();
  CudaKernel code = print_cuda(k, "nk_" + k.name, target_named(target)).value();
  return compiled(std::string(cuda_prelude()) + "\n" + code.text, target).kernels;
}

class GeneratedCode : public testing::TestWithParam<std::string> {};

// Both ways are in the kernel: by packs, and element by element for addresses that are no multiple of 16.
TEST_P(GeneratedCode, PointwiseKernelsMoveSixteenBytesAThread) {
  std::vector<CudaKernelFacts> kernels =
      facts_of(R"(kernel @gelu(in x: f32[64,512], in b: f32[512], out y: f32[64,512]) {
  axes i = 64, j = 512
  schedule unit 1 units 64 threads 64 vector j
  for i, j {
    let h: f32 = x[i, j] + b[j]
    store y[i, j] = 0.5:f32 * h * (1.0:f32 + erf(h * 0.70710678:f32))
  }
})",
               GetParam());
  ASSERT_EQ(kernels.size(), 1u);
  const InstructionCounts& n = kernels[0].instructions;
  EXPECT_GE(n.global_loads.bytes16, 2);
  EXPECT_GE(n.global_stores.bytes16, 1);
  EXPECT_EQ(n.local_loads + n.local_stores, 0);
}

TEST_P(GeneratedCode, HalvesMoveEightAtATime) {
  std::vector<CudaKernelFacts> kernels = facts_of(R"(kernel @scale(in x: bf16[4096], out y: bf16[4096]) {
  axes i = 4096
  schedule unit 128 units 32 threads 32 vector i
  for i {
    store y[i] = convert.bf16(convert.f32(x[i]) * 3.0:f32)
  }
})",
                                                  GetParam());
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_GE(kernels[0].instructions.global_loads.bytes16, 1);
  EXPECT_GE(kernels[0].instructions.global_stores.bytes16, 1);
}

TEST_P(GeneratedCode, ProductsKeepTheirTilesInRegisters) {
  std::vector<CudaKernelFacts> kernels =
      facts_of(R"(kernel @matmul(in a: f32[128,96], in b: f32[96,128], out y: f32[128,128]) {
  axes m = 128, n = 128, k = 96
  schedule unit 64 units 2 threads 2
  contract acc[m, n]: f32 = sum(k) a[m, k] * b[k, n]
  store y[m, n] over m, n = acc[m, n]
})",
               GetParam());
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].instructions.local_loads + kernels[0].instructions.local_stores, 0);
  EXPECT_GE(kernels[0].instructions.ffma, 2 * 16);  // a step of k and more, unrolled
  EXPECT_EQ(kernels[0].spill_load_bytes, 0);
}

TEST_P(GeneratedCode, ProductsOfHalvesRunOnTensorCores) {
  std::vector<CudaKernelFacts> kernels =
      facts_of(R"(kernel @matmul(in a: bf16[256,128], in b: bf16[128,256], out y: bf16[256,256]) {
  axes m = 256, n = 256, k = 128
  contract acc[m, n]: f32 = sum(k) convert.f32(a[m, k]) * convert.f32(b[k, n])
  store y[m, n] over m, n = convert.bf16(acc[m, n])
})",
               GetParam());
  ASSERT_EQ(kernels.size(), 1u);
  const InstructionCounts& n = kernels[0].instructions;
  EXPECT_GE(n.hmma, 32);  // 4 x 4 fragments, two steps of k
  EXPECT_GE(n.global_loads.bytes16, 2);
  EXPECT_EQ(n.local_loads + n.local_stores, 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, GeneratedCode, testing::Values("sm_80", "sm_90a", "sm_100a"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace nabla::codegen
