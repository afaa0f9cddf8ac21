// Every op that has code for CPUs has code for GPUs: its examples and draws print, and NVRTC takes them.
#include <gtest/gtest.h>

#include "codegen/compile_kernels.h"
#include "tests/conformance/cpu_run.h"
#include "tests/conformance/op_cases.h"

namespace nabla {
namespace {

class CudaOps : public testing::TestWithParam<std::string> {};

TEST_P(CudaOps, Compile) {
  ir::Target target = ir::find_target("sm_90a").value();
  std::vector<property::Case> cases = conformance::static_cases(GetParam());
  ir::Module planned = conformance::planned_for(conformance::module_of(cases), target).value();
  auto code = codegen::compile_kernels(planned, target, {2, codegen::cache_directory()});
  ASSERT_TRUE(code.ok()) << to_string(code.errors());
  EXPECT_EQ(code->kernels.size(), planned.kernels.size());
  for (const auto& kernel : code->kernels)
    for (const auto& grid : kernel.grids) EXPECT_GT(grid.resident_warps, 0) << grid.symbol;
}

INSTANTIATE_TEST_SUITE_P(All, CudaOps, testing::ValuesIn(conformance::ops_with_code()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace nabla
