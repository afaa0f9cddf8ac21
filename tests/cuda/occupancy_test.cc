// Resident blocks and warps; the values are those of NVIDIA's cuda_occupancy.h (CUDA 13.0) for the same numbers.
#include "codegen/cuda/occupancy.h"

#include <gtest/gtest.h>

namespace nabla::codegen {
namespace {

struct Case {
  const char* target;
  int threads, registers, static_shared, dynamic_shared, blocks, warps;
};

TEST(Occupancy, IsWhatNvidiasHeaderComputes) {
  const Case kCases[] = {
      {"sm_80", 256, 32, 0, 0, 8, 64},         // full: 2048 threads
      {"sm_80", 256, 64, 0, 0, 4, 32},         // 65536 registers
      {"sm_80", 256, 65, 0, 0, 3, 24},         // 72 a thread, as registers are given: 28 warps
      {"sm_80", 1024, 33, 0, 0, 1, 32},        // one block of 32 warps; 48 would fit
      {"sm_80", 32, 16, 0, 0, 32, 32},         // 32 blocks
      {"sm_80", 96, 40, 0, 0, 16, 48},         // 51 warps, in fours: 48
      {"sm_80", 100, 32, 0, 0, 16, 64},        // a started warp is a warp
      {"sm_80", 256, 32, 0, 48 << 10, 3, 24},  // 164 KiB, 1 KiB of each block reserved
      {"sm_80", 256, 32, 16 << 10, 32 << 10, 3, 24},
      {"sm_80", 128, 32, 0, 163 << 10, 1, 4},
      {"sm_80", 128, 255, 0, 0, 2, 8},
      {"sm_90", 256, 32, 0, 48 << 10, 4, 32},  // 228 KiB
      {"sm_90a", 384, 168, 0, 200 << 10, 1, 12},
      {"sm_90a", 128, 168, 0, 0, 3, 12},
      {"sm_90a", 128, 32, 1200, 0, 16, 64},
      {"sm_90a", 128, 32, 0, 227 << 10, 1, 4},
      {"sm_86", 128, 32, 0, 0, 12, 48},  // 1536 threads
      {"sm_86", 64, 32, 0, 0, 16, 32},   // 16 blocks
      {"sm_89", 32, 32, 0, 0, 24, 24},
      {"sm_100a", 32, 32, 0, 0, 32, 32},
      {"sm_120", 32, 32, 0, 0, 24, 24},
  };
  for (const Case& c : kCases) {
    CubinKernel kernel;
    kernel.registers = c.registers;
    kernel.static_shared_bytes = c.static_shared;
    Occupancy got = occupancy(kernel, ir::find_target(c.target).value(), c.threads, c.dynamic_shared);
    EXPECT_EQ(got, (Occupancy{c.blocks, c.warps}))
        << c.target << " " << c.threads << " threads, " << c.registers << " registers, " << c.static_shared << " + "
        << c.dynamic_shared << " bytes: " << got.blocks << " blocks, " << got.warps << " warps";
  }
}

std::string refusal(const CubinKernel& kernel, const char* target, int threads, int dynamic_shared) {
  Status fits = check_launch(kernel, ir::find_target(target).value(), threads, dynamic_shared);
  EXPECT_EQ(fits.ok(), occupancy(kernel, ir::find_target(target).value(), threads, dynamic_shared).blocks > 0);
  if (fits.ok()) return "fits";
  EXPECT_EQ(fits.errors()[0].code, Code::kNvrtcFailed);
  return fits.errors()[0].message;
}

TEST(CheckLaunch, SaysWhatDoesNotFit) {
  CubinKernel k;
  k.name = "k";
  k.registers = 65;
  EXPECT_EQ(refusal(k, "sm_80", 512, 0), "fits");
  k.max_threads = 256;
  EXPECT_EQ(refusal(k, "sm_80", 256, 0), "fits");
  EXPECT_EQ(refusal(k, "sm_80", 288, 0),
            "kernel `k` is launched with blocks of 288 threads; its text says __launch_bounds__(256), at most 256");
  k.max_threads = 0;
  EXPECT_EQ(refusal(k, "sm_80", 1056, 0), "kernel `k` has blocks of 1056 threads; sm_80 allows 1024");
  EXPECT_EQ(refusal(k, "sm_80", 1024, 0),
            "kernel `k` takes 65 registers a thread: blocks of 1024 threads do not fit the 65536 registers of sm_80, "
            "which are enough for 896 threads");
  EXPECT_EQ(refusal(k, "sm_80", 128, 163 << 10), "fits");
  EXPECT_EQ(refusal(k, "sm_80", 128, (163 << 10) + 4),
            "kernel `k` takes 166916 bytes of shared memory, 166916 of them dynamic; a block on sm_80 may have 166912");
  EXPECT_EQ(refusal(k, "sm_90a", 128, (163 << 10) + 4), "fits");
  k.static_shared_bytes = 8;
  EXPECT_EQ(refusal(k, "sm_80", 128, 163 << 10),
            "kernel `k` takes 166920 bytes of shared memory, 166912 of them dynamic; a block on sm_80 may have 166912");
  k.static_shared_bytes = 49156;
  EXPECT_EQ(refusal(k, "sm_90a", 128, 0),
            "kernel `k` takes 49156 bytes of static shared memory; a block may have 49152");
}

}  // namespace
}  // namespace nabla::codegen
