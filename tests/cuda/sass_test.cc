// Loops and loads in flight of machine code that NVRTC makes here, and of bytes that are no code.
#include "codegen/cuda/sass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/cuda/compiling.h"

namespace nabla::codegen {
namespace {

// Branches are encoded in two ways, before sm_90 and since.
const char* const kTargets[] = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120"};

CudaKernelFacts facts_of(const std::string& body, const std::string& target) {
  return only_kernel("extern \"C\" __global__ void k(float* y, const float* x, const int* n) {\n" + body + "}\n", target);
}

int total(const KernelCode& code) {
  int out = code.apart;
  for (const CodeLoop& l : code.loops) out += l.own.all;
  return out;
}

TEST(Sass, CodeWithoutBranchesBackHasNoLoop) {
  for (const char* target : kTargets) {
    SCOPED_TRACE(target);
    CudaKernelFacts k = facts_of("int i = threadIdx.x;\nif (i < n[0]) y[i] = 2 * x[i]; else y[i] = x[0];\n", target);
    ASSERT_EQ(k.code.loops.size(), 1u);
    EXPECT_EQ(k.code.loops[0].depth, 0);
    EXPECT_EQ(k.code.apart, 0);
    EXPECT_EQ(total(k.code) + 1, k.instructions.all);  // the branch to itself at the end
    InstructionCounts all = k.instructions;
    all.all -= 1;
    EXPECT_EQ(k.code.loops[0].own, all);
  }
}

TEST(Sass, LoopsStandInEachOtherAndBesideEachOther) {
  const std::string body =
      "float s = 0;\n#pragma unroll 1\n"
      "for (int i = threadIdx.x; i < n[0]; i += 32) {\n"
      "  s *= 1.5f;\n#pragma unroll 1\n"
      "  for (int j = 0; j < n[1]; ++j) s += x[i + j * 64];\n"
      "  y[i] = s;\n#pragma unroll 1\n"
      "  for (int j = 0; j < n[2]; ++j) y[i + j * 64] = s + j;\n"
      "}\n";
  for (const char* target : kTargets) {
    SCOPED_TRACE(target);
    CudaKernelFacts k = facts_of(body, target);
    const std::vector<CodeLoop>& loops = k.code.loops;
    ASSERT_EQ(loops.size(), 4u);
    EXPECT_EQ(loops[1].depth, 1);
    EXPECT_EQ(loops[1].parent, 0);
    EXPECT_FALSE(loops[1].innermost);
    EXPECT_EQ(loops[1].own.global_stores.total(), 1);
    const CodeLoop& reads = loops[loops[2].own.global_stores.total() ? 3 : 2];
    const CodeLoop& writes = loops[loops[2].own.global_stores.total() ? 2 : 3];
    for (const CodeLoop* l : {&reads, &writes}) {
      EXPECT_EQ(l->parent, 1);
      EXPECT_EQ(l->depth, 2);
      EXPECT_TRUE(l->innermost);
      EXPECT_GE(l->own.all, 4);
      EXPECT_LE(l->own.all, 24);
    }
    EXPECT_EQ(reads.own.global_stores.total(), 0);
    EXPECT_EQ(writes.own.global_stores.total(), 1);
    EXPECT_EQ(total(k.code) + 1, k.instructions.all);
  }
}

// A compiler's two copies of a loop, one that takes four elements at a time: each of them is one.
TEST(Sass, UnrolledLoopsHaveTheirRest) {
  for (const char* target : kTargets) {
    SCOPED_TRACE(target);
    CudaKernelFacts k = facts_of("float s = 0;\n#pragma unroll 4\nfor (int j = 0; j < n[0]; ++j) s += x[j];\ny[0] = s;\n", target);
    std::vector<int> loads;
    for (const CodeLoop& l : k.code.loops)
      if (l.depth == 1) loads.push_back(l.own.global_loads.total());
    ASSERT_FALSE(loads.empty());
    EXPECT_EQ(*std::max_element(loads.begin(), loads.end()) % 4, 0);
    EXPECT_GE(k.code.loads_in_flight, 4);
  }
}

// What warps do that have not met stands out of line, and branches back from there.
TEST(Sass, WarpsThatHaveNotMetMakeNoLoop) {
  const std::string body =
      "float s = x[threadIdx.x];\n"
      "if (n[threadIdx.x] > 0) { s = s * s + 1; y[threadIdx.x + 64] = s; }\n"
      "__syncwarp();\n"
      "for (int o = 16; o; o /= 2) s += __shfl_xor_sync(0xffffffffu, s, o);\n"
      "y[threadIdx.x] = s;\n";
  for (const char* target : kTargets) EXPECT_EQ(facts_of(body, target).code.loops.size(), 1u) << target;
}

TEST(Sass, FunctionsThatAreCalledStandApart) {
  for (const char* target : kTargets) {
    SCOPED_TRACE(target);
    CudaKernelFacts divides = facts_of("y[threadIdx.x] = x[threadIdx.x] / x[threadIdx.x + 64];\n", target);
    CudaKernelFacts multiplies = facts_of("y[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x + 64];\n", target);
    EXPECT_EQ(multiplies.code.apart, 0);
    EXPECT_GT(divides.code.apart, 20);
    EXPECT_LT(divides.code.loops[0].own.all, 60);
  }
}

TEST(Sass, LoadsAreInFlightUntilOneIsNeeded) {
  for (const char* target : kTargets) {
    SCOPED_TRACE(target);
    CudaKernelFacts one = facts_of("y[threadIdx.x] = x[n[n[threadIdx.x]]];\n", target);
    EXPECT_EQ(one.code.loads_in_flight, 1);
    EXPECT_EQ(one.code.loops[0].waits, 3);
    EXPECT_GE(one.code.loops[0].clocks, one.code.loops[0].own.all);
    EXPECT_EQ(one.code.bytes_in_flight, 4);
    for (int count : {2, 4, 8}) {
      std::string wide = fmt::format(
          "const float4* from = (const float4*)x;\nfloat4 v[{0}];\n"
          "#pragma unroll\nfor (int i = 0; i < {0}; ++i) v[i] = from[threadIdx.x + i * 128];\n"
          "#pragma unroll\nfor (int i = 0; i < {0}; ++i) y[threadIdx.x + i * 128] = v[i].x * v[i].y + v[i].z * v[i].w;\n",
          count);
      CudaKernelFacts k = facts_of(wide, target);
      // A register allocator may begin to use some before it issues the last of many.
      EXPECT_LE(k.code.loads_in_flight, count);
      EXPECT_GE(k.code.loads_in_flight, std::min(count, 6));
      EXPECT_EQ(k.code.bytes_in_flight, 16 * k.code.loads_in_flight);
      EXPECT_EQ(k.code.loops[0].waits, count <= k.code.loads_in_flight ? 1 : 2);
    }
  }
}

// A barrier between them is no wait for a load, a use is.
TEST(Sass, UsesEndWhatIsInFlight) {
  for (const char* target : kTargets) {
    std::string chain =
        "float s = x[threadIdx.x];\ny[threadIdx.x] = s;\n__syncthreads();\ns = x[threadIdx.x + 1];\ny[threadIdx.x + 1] = s;\n";
    EXPECT_EQ(facts_of(chain, target).code.loads_in_flight, 1) << target;
  }
}

// Of two ways through a loop neither is always gone, and what stands before and after them is.
TEST(Sass, BranchesGoRoundCode) {
  const std::string plain = "float s = 0;\n#pragma unroll 1\nfor (int j = 0; j < n[0]; ++j) s = s * x[j] + 1;\ny[0] = s;\n";
  const std::string parted =
      "float s = 0;\n#pragma unroll 1\nfor (int j = 0; j < n[0]; ++j) {\n  s = s * x[j] + 1;\n"
      "  if (n[j + 1]) { y[j] = s; y[j + 64] = s + 1; s = sqrtf(s) + x[j + 7]; y[j + 9] = s; }\n}\ny[0] = s;\n";
  auto loop_of = [](const std::string& body, const char* target) {
    CudaKernelFacts k = facts_of(body, target);
    for (const CodeLoop& l : k.code.loops)
      if (l.depth == 1 && l.own.global_loads.total() > 0) return l;
    ADD_FAILURE() << target << ": no loop";
    return CodeLoop{};
  };
  for (const char* target : kTargets) {
    EXPECT_EQ(loop_of(plain, target).skipped, 0) << target;
    CodeLoop l = loop_of(parted, target);
    EXPECT_GT(l.skipped, 3) << target;
    EXPECT_LT(l.skipped, l.own.all - 3) << target;
    EXPECT_GE(l.skipped_clocks, l.skipped) << target;
    EXPECT_LT(l.skipped_clocks, l.clocks) << target;
  }
}

void expect_sound(const KernelCode& code, size_t instructions) {
  ASSERT_GE(code.loops.size(), 1u);
  for (size_t i = 0; i < code.loops.size(); ++i) {
    const CodeLoop& l = code.loops[i];
    EXPECT_GE(l.own.all, 0);
    EXPECT_LT(l.parent, static_cast<int>(i));
    EXPECT_EQ(l.depth, i == 0 ? 0 : code.loops[static_cast<size_t>(l.parent)].depth + 1);
    EXPECT_LE(static_cast<size_t>(l.first), instructions);
  }
  EXPECT_LE(static_cast<size_t>(total(code)), instructions);
  EXPECT_LE(static_cast<size_t>(code.loads_in_flight), instructions);
}

TEST(Sass, AnyBytesHaveAStructure) {
  std::mt19937_64 random(3);
  for (int compute : {80, 90, 100}) {
    expect_sound(read_code("", compute), 0);
    expect_sound(read_code(std::string(15, '\xff'), compute), 0);
    expect_sound(read_code(std::string(16 * 64, '\0'), compute), 64);
    expect_sound(read_code(std::string(16 * 64, '\xff'), compute), 64);
    int loops = 0;
    for (int round = 0; round < 2000; ++round) {
      std::string code(static_cast<size_t>(random() % 3000), '\0');
      for (char& c : code) c = static_cast<char>(random());
      // Half of it branches, not far.
      for (size_t at = 0; at + 16 <= code.size(); at += 16) {
        uint64_t words = (random() % 64 - 32) * 4, low = 0x947 | (random() % 16) << 12, high = words >> 30 & 0x3ffff;
        if (random() % 2) continue;
        low |= compute >= 90 ? (words & 0xff) << 16 | words >> 8 << 34 : words << 34;
        if (compute >= 90) high = words >> 38 & 0x3ffff;
        if (random() % 2) high |= uint64_t{7} << 23;
        std::memcpy(code.data() + at, &low, 8);
        std::memcpy(code.data() + at + 8, &high, 8);
      }
      KernelCode read = read_code(code, compute);
      expect_sound(read, code.size() / 16);
      loops += static_cast<int>(read.loops.size()) - 1;
    }
    EXPECT_GT(loops, 1000) << compute;
  }
}

}  // namespace
}  // namespace nabla::codegen
