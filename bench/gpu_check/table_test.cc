// The table of what a check found.
#include <gtest/gtest.h>

#include <cmath>

#include "bench/gpu_check/check.h"

namespace nabla::gpu_check {
namespace {

using nlohmann::json;

// Rows come as lines of JSON, in which NaN is null.
TEST(Table, ALossThatIsNotANumberIsALineOfIt) {
  const json machine = {{"gpu", "H100"}, {"capability", 90}, {"target", "sm_90a"}, {"seed", 4u}, {"nvidia_smi", ""}};
  json row = {{"part", "training"}, {"name", "gpt2"}, {"ok", false}, {"step_ms", 1.5}, {"tokens_per_second", 1e6}, {"tflops", 200.0},
              {"utilisation", 0.2}, {"loss", {11.0, std::nan("")}}};
  std::string text = table(machine, {json::parse(row.dump())});
  EXPECT_NE(text.find("loss 11 -> nan  FAILED"), std::string::npos) << text;
  EXPECT_NE(text.find("1 FAILED"), std::string::npos) << text;
}

// The programs for sm_90a know the H100 alone: 3,955 GB/s are 82 % of an H200's memory, not 132 % of an H100's.
TEST(Table, SharesAreThoseOfTheGpuInTheMachine) {
  EXPECT_EQ(sheet_of("NVIDIA H200", "copy_gbs", 3000), 4800);
  EXPECT_EQ(sheet_of("NVIDIA H100 80GB HBM3", "copy_gbs", 3000), 3350);
  EXPECT_EQ(sheet_of("NVIDIA H200", "tensor_tflops", 1), 989);
  EXPECT_EQ(sheet_of("Fake GPU", "f32_tflops", 66.9), 66.9);
}

// What was measured is known only with the algorithm that the library's call took.
TEST(Table, CallsOfLibrariesHaveTheAlgorithmOfTheRecords) {
  const std::vector<GemmRecord> records = {{"NVIDIA H200", "13.1.0", "gemm bf16 1x64x128x64 nn align 16", "\x0a"},
                                           {"NVIDIA H100", "13.1.0", "gemm bf16 1x64x128x64 nn align 16", "\x0b"},
                                           {"NVIDIA H200", "13.1.0", "gemm bf16 1x64x128x640 nn align 16", "\x0c"}};
  const std::string generated = "20 x dot: product warpgroups tile 128, 256 stages 4";
  EXPECT_EQ(with_records({"20 x gemm bf16 1x64x128x64 nn", generated}, "NVIDIA H200", records),
            json({"20 x gemm bf16 1x64x128x64 nn | record NVIDIA H200 | 13.1.0 | gemm bf16 1x64x128x64 nn align 16 = 0a", generated}));
}

}  // namespace
}  // namespace nabla::gpu_check
