// The prelude and the kernels that settle kernel_ir, through NVRTC for every generation of GPUs.
#include <gtest/gtest.h>

#include <set>

#include "codegen/cuda/printer.h"
#include "tests/cuda/compiling.h"
#include "tests/kernel_ir/nine_kernels.h"

namespace nabla::codegen {
namespace {

using kernel_ir::Kernel;

// A pointer per buffer, nothing else.
std::vector<CudaParameter> pointers(size_t count) {
  std::vector<CudaParameter> out;
  for (size_t i = 0; i < count; ++i) out.push_back({static_cast<int>(i), static_cast<int>(8 * i), 8});
  return out;
}

class Prelude : public testing::TestWithParam<std::string> {};

TEST_P(Prelude, CompilesAloneAndWithNineKernels) {
  std::vector<SourceFile> sources{{"prelude.cu", cuda_prelude()}};
  std::vector<Kernel> kernels;
  std::vector<CudaKernel> printed;
  for (const std::string& name : kernel_ir::nine_kernels()) {
    kernels.push_back(kernel_ir::read_kernel(name));
    printed.push_back(kernel_ir::print_for_gpu(kernels.back(), "nk_" + name, target_named(GetParam())).value());
    sources.push_back({name + ".cu", std::string(cuda_prelude()) + "\n" + printed.back().text});
  }
  Result<CudaBinary> binary = compile_cuda(sources, target_named(GetParam()), {2, ""});
  ASSERT_TRUE(binary.ok()) << to_string(binary.errors());
  ASSERT_EQ(binary->objects.size(), kernels.size() + 1);
  EXPECT_TRUE(binary->objects[0].kernels.empty());
  for (size_t i = 0; i < kernels.size(); ++i) {
    SCOPED_TRACE(kernels[i].name);
    std::set<std::string> want, got;
    for (const CudaGrid& g : printed[i].grids) want.insert(g.symbol);
    const CudaObject& object = binary->objects[i + 1];
    if (target_named(GetParam()).cuda.ptx) {
      for (const std::string& symbol : want)
        EXPECT_NE(object.bytes.find(".visible .entry " + symbol + "("), std::string::npos) << symbol;
      continue;
    }
    for (const CudaKernelFacts& k : object.kernels) {
      got.insert(k.name);
      EXPECT_EQ(k.parameters, pointers(kernels[i].buffers.size())) << k.name;
      EXPECT_GT(k.registers, 0);
    }
    EXPECT_EQ(got, want);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Prelude, testing::Values("compute_80", "sm_80", "sm_90a", "sm_100a"),
                         [](const auto& info) { return info.param; });

TEST(PreludePtx, IsAcceptedByEveryGeneration) {
  const std::string text = std::string(cuda_prelude()) + R"(
extern "C" __global__ void f(const float* x, float* d) {
  NB_SHARED(unsigned, room);
  nb_cp_async_16(room + threadIdx.x * 4, x + threadIdx.x * 4);
  nb_cp_commit();
  nb_cp_wait<0>();
  __syncthreads();
  unsigned a[4], b[2] = {room[threadIdx.x], room[threadIdx.x + 1]};
  nb_ldmatrix_x4(a, room + threadIdx.x * 4);
  nb_ldmatrix_x4_trans(a, room + a[0] % 32 * 4);
  float sum[4] = {};
  nb_mma_16816(sum, a, b, nb_bf16());
  nb_mma_16816(sum, a, b, nb_f16());
  b[0] = nb_to_tf32(b[0]);
  nb_mma_1688_tf32(sum, a, b);
  for (int i = 0; i < 4; ++i) d[threadIdx.x * 4 + i] = sum[i];
}
)";
  for (const char* target : {"sm_80", "sm_90a", "sm_100a"}) {
    SCOPED_TRACE(target);
    EXPECT_EQ(only_kernel(text, target).parameters, pointers(2));
  }
}

}  // namespace
}  // namespace nabla::codegen
