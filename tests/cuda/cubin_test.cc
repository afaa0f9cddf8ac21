// Facts and instruction counts of cubins, and bytes that are none.
#include "codegen/cuda/cubin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/cuda/compiling.h"

namespace nabla::codegen {
namespace {

const std::string kHead = "extern \"C\" __global__ void ";
const char* const kTargets[] = {"sm_80", "sm_90a", "sm_100a", "sm_120"};

TEST(Cubin, HoldsTheFactsOfEveryKernel) {
  const std::string text = kHead +
                           "__launch_bounds__(96) b(short h, double d, char c, float* p, int i) {\n"
                           "  if (c) p[i] = h + d;\n}\n" +
                           kHead +
                           "a(float* p) {\n"
                           "  __shared__ float s[300];\n"
                           "  s[threadIdx.x] = p[threadIdx.x];\n"
                           "  __syncthreads();\n"
                           "  p[threadIdx.x] = s[299 - threadIdx.x];\n}\n";
  for (const char* target : kTargets) {
    SCOPED_TRACE(target);
    CudaObject object = compiled(text, target);
    ASSERT_EQ(object.kernels.size(), 2u);
    const CudaKernelFacts &a = object.kernels[0], &b = object.kernels[1];
    EXPECT_EQ(a.name, "a");
    EXPECT_EQ(b.name, "b");
    EXPECT_EQ(a.static_shared_bytes, 1200);
    EXPECT_EQ(b.static_shared_bytes, 0);
    EXPECT_EQ(a.barriers, 1);
    EXPECT_EQ(b.barriers, 0);
    EXPECT_EQ(a.max_threads, 0);
    EXPECT_EQ(b.max_threads, 96);
    EXPECT_EQ(a.parameters, (std::vector<CudaParameter>{{0, 0, 8}}));
    EXPECT_EQ(b.parameters, (std::vector<CudaParameter>{{0, 0, 2}, {1, 8, 8}, {2, 16, 1}, {3, 24, 8}, {4, 32, 4}}));
    EXPECT_EQ(a.instructions.bars, 1);
    EXPECT_EQ(a.instructions.shared_loads, (AccessCounts{0, 1, 0, 0}));
    EXPECT_EQ(a.instructions.shared_stores, (AccessCounts{0, 1, 0, 0}));
    for (const CudaKernelFacts& k : object.kernels) {
      EXPECT_GE(k.registers, 4);
      EXPECT_LE(k.registers, 32);
      EXPECT_EQ(k.frame_bytes, 0);
      EXPECT_TRUE(k.warnings.empty());
    }
  }
}

TEST(Cubin, TellsTheWidthOfEveryAccess) {
  const std::pair<const char*, AccessCounts> kTypes[] = {{"unsigned char", {1, 0, 0, 0}},
                                                         {"unsigned short", {1, 0, 0, 0}},
                                                         {"float", {0, 1, 0, 0}},
                                                         {"double", {0, 0, 1, 0}},
                                                         {"float4", {0, 0, 0, 1}}};
  for (const char* target : kTargets)
    for (const auto& [type, want] : kTypes) {
      InstructionCounts n = only_kernel(kHead + "copy(" + type + "* to, const " + type +
                                            "* from) { to[threadIdx.x] = from[threadIdx.x]; }",
                                        target)
                                .instructions;
      EXPECT_EQ(n.global_loads, want) << target << " " << type;
      EXPECT_EQ(n.global_stores, want) << target << " " << type;
      EXPECT_EQ(n.local_loads + n.local_stores + n.shared_loads.total() + n.shared_stores.total(), 0);
    }
}

// 96 values a thread, all alive, where 1024 threads leave 64 registers to each.
std::string spilling(int threads) {
  return kHead + "__launch_bounds__(" + std::to_string(threads) +
         ") spill(float* out, const float* in) {\n"
         "  float a[96];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < 96; ++i) a[i] = in[i * 1024 + threadIdx.x];\n"
         "  __syncthreads();\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < 96; ++i) out[i * 1024 + threadIdx.x] = a[95 - i] * a[i * 7 % 96];\n}\n";
}

TEST(Cubin, SpillsAreFoundAndIndexedArraysAreNoSpills) {
  for (const char* target : kTargets) {
    SCOPED_TRACE(target);
    CudaKernelFacts k = only_kernel(spilling(1024), target);
    EXPECT_EQ(k.registers, 64);
    EXPECT_GT(k.frame_bytes, 100);
    EXPECT_GT(k.spill_store_bytes, 100);
    EXPECT_GT(k.spill_load_bytes, 100);
    EXPECT_GT(k.instructions.local_loads, 20);
    EXPECT_GT(k.instructions.local_stores, 20);
    ASSERT_EQ(k.warnings.size(), 1u);
    EXPECT_EQ(k.warnings[0], fmt::format("spills registers: {} bytes stored, {} loaded per thread; it has 64 registers",
                                         k.spill_store_bytes, k.spill_load_bytes));
    CudaKernelFacts roomy = only_kernel(spilling(256), target);
    EXPECT_GT(roomy.registers, 96);
    EXPECT_EQ(roomy.frame_bytes + roomy.instructions.local_loads + roomy.spill_store_bytes, 0);
    EXPECT_TRUE(roomy.warnings.empty());
    CudaKernelFacts own = only_kernel(kHead +
                                          "own(float* out, const int* at) {\n"
                                          "  float a[16];\n"
                                          "  for (int i = 0; i < 16; ++i) a[i] = out[i];\n"
                                          "  for (int i = 0; i < 16; ++i) a[at[i]] += i;\n"
                                          "  for (int i = 0; i < 16; ++i) out[i] = a[i];\n}\n",
                                      target);
    EXPECT_EQ(own.frame_bytes, 64);
    EXPECT_GT(own.instructions.local_stores, 0);
    EXPECT_EQ(own.spill_store_bytes, 0);
    EXPECT_TRUE(own.warnings.empty());
  }
}

TEST(Cubin, CountsWhatComputes) {
  const std::string text =
      kHead +
      "__launch_bounds__(32) k(float* out, const unsigned* in) {\n"
      "  __shared__ __align__(16) unsigned s[512];\n"
      "  unsigned to = (unsigned)__cvta_generic_to_shared(s + 4 * threadIdx.x), a[4];\n"
      "  asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" ::\"r\"(to), \"l\"(in + 4 * threadIdx.x));\n"
      "  asm volatile(\"cp.async.wait_all;\" ::: \"memory\");\n"
      "  __syncthreads();\n"
      "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\"\n"
      "               : \"=r\"(a[0]), \"=r\"(a[1]), \"=r\"(a[2]), \"=r\"(a[3]) : \"r\"(to));\n"
      "  float d[4] = {0, 0, 0, 0};\n"
      "  asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, \"\n"
      "               \"{%8, %9}, {%0, %1, %2, %3};\"\n"
      "               : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])\n"
      "               : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(a[0]), \"r\"(a[1]));\n"
      "  out[threadIdx.x] = __fmaf_rn(d[0], d[1], d[2]) * exp2f(d[3]);\n}\n";
  for (const char* target : kTargets) {
    SCOPED_TRACE(target);
    InstructionCounts n = only_kernel(text, target).instructions;
    EXPECT_EQ(n.async_copies, (AccessCounts{0, 0, 0, 1}));
    EXPECT_EQ(n.matrix_loads, 1);
    EXPECT_EQ(n.hmma, 1);
    EXPECT_EQ(n.hgmma, 0);
    EXPECT_EQ(n.ffma, 1);
    EXPECT_EQ(n.mufu, 1);
    EXPECT_EQ(n.bars, 1);
    EXPECT_EQ(n.global_loads.total(), 0);
  }
}

TEST(Cubin, TellsTheWidthOfAsyncCopies) {
  const std::pair<int, AccessCounts> kWidths[] = {{4, {0, 1, 0, 0}}, {8, {0, 0, 1, 0}}, {16, {0, 0, 0, 1}}};
  for (const char* target : kTargets)
    for (const auto& [bytes, want] : kWidths) {
      CudaKernelFacts k = only_kernel(
          kHead +
              "k(int* to, const int* from) {\n"
              "  __shared__ __align__(16) int s[512];\n"
              "  asm volatile(\"cp.async.ca.shared.global [%0], [%1], " +
              std::to_string(bytes) +
              ";\" ::\n"
              "               \"r\"((unsigned)__cvta_generic_to_shared(s + 4 * threadIdx.x)), \"l\"(from));\n"
              "  asm volatile(\"cp.async.wait_all;\" ::: \"memory\");\n"
              "  to[threadIdx.x] = s[4 * threadIdx.x];\n}\n",
          target);
      EXPECT_EQ(k.instructions.async_copies, want) << target << " " << bytes;
    }
}

TEST(Cubin, TellsTheTensorCoresOfAWarpgroup) {
  const std::string text =
      kHead +
      "__launch_bounds__(128) k(float* out, unsigned long a, unsigned long b) {\n"
      "  float d[4] = {0, 0, 0, 0};\n"
      "  asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");\n"
      "  asm volatile(\"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, "
      "0;\"\n"
      "               : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : \"l\"(a), \"l\"(b));\n"
      "  asm volatile(\"wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\" ::: \"memory\");\n"
      "  for (int i = 0; i < 4; ++i) out[4 * threadIdx.x + i] = d[i];\n}\n";
  InstructionCounts n = only_kernel(text, "sm_90a").instructions;
  EXPECT_EQ(n.hgmma, 1);
  EXPECT_EQ(n.hmma, 0);
  EXPECT_EQ(n.global_stores, (AccessCounts{0, 4, 0, 0}));
}

TEST(Cubin, FunctionsAreNoKernels) {
  CudaObject object = compiled("__device__ __noinline__ float f(float x) { return sinf(x); }\n" + kHead +
                                   "k(float* p) { p[threadIdx.x] = f(p[threadIdx.x]) + f(p[0]); }",
                               "sm_90a");
  ASSERT_EQ(object.kernels.size(), 1u);
  EXPECT_EQ(object.kernels[0].name, "k");
}

std::string message(std::string_view bytes) {
  Result<std::vector<CubinKernel>> kernels = read_cubin(bytes);
  if (kernels.ok()) return "cubin";
  EXPECT_EQ(kernels.errors()[0].code, Code::kNvrtcFailed);
  return kernels.errors()[0].message;
}

TEST(Cubin, TruncatedFilesAreRefused) {
  std::string cubin = compiled(spilling(1024), "sm_90a").bytes;
  ASSERT_GT(cubin.size(), 64u);
  EXPECT_EQ(message(""), "not a well-formed cubin: it has no 64-bit ELF header for CUDA");
  uint64_t table;
  uint16_t count;
  std::memcpy(&table, cubin.data() + 40, sizeof table);
  std::memcpy(&count, cubin.data() + 60, sizeof count);
  ASSERT_EQ(message(std::string_view(cubin).substr(0, table + 64 * count)), "cubin");
  for (size_t size = 0; size < table + 64 * count; size += 13)
    EXPECT_NE(message(std::string_view(cubin).substr(0, size)), "cubin") << size;
}

TEST(Cubin, DamagedFilesAreReadOrRefused) {
  const std::string good = compiled(spilling(1024), "sm_90a").bytes;
  std::mt19937 random(1);
  int refused = 0, changed = 0;
  const CubinKernel want = read_cubin(good).value().at(0);
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (int i = 0; i < 1 + round % 4; ++i) {
      // Headers, tables and attributes are dense at both ends of the file.
      size_t span = std::min<size_t>(bad.size(), round % 3 ? 4096 : bad.size());
      size_t at = round % 2 ? random() % span : bad.size() - 1 - random() % span;
      bad[at] = static_cast<char>(round % 5 ? random() : 0xff);
    }
    Result<std::vector<CubinKernel>> kernels = read_cubin(bad);
    if (!kernels.ok())
      ++refused;
    else if (kernels->empty() || !(kernels->at(0) == want))
      ++changed;
    for (size_t i = 0; kernels.ok() && i < kernels->size(); ++i) {
      EXPECT_GE((*kernels)[i].static_shared_bytes, 0);
      EXPECT_GE((*kernels)[i].registers, 0);
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(changed, 10);
}

}  // namespace
}  // namespace nabla::codegen
