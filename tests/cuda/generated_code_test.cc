// What NVRTC makes of generated kernels, in the instructions of the GPU: wide accesses, tensor cores, nothing in local
// memory.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/cuda/occupancy.h"
#include "codegen/cuda/printer.h"
#include "ir/kernel_ir/product.h"
#include "tests/cuda/compiling.h"
#include "tests/kernel_ir/nine_kernels.h"
#include "tests/nightly.h"

namespace nabla::codegen {
namespace {

std::vector<CudaKernelFacts> facts_of(const std::string& kernel, const std::string& target, bool at_packs = false) {
  kernel_ir::Kernel k = kernel_ir::parse_kernel(kernel, "kernel").value();
  CudaKernel code = kernel_ir::print_for_gpu(k, "nk_" + k.name, target_named(target), at_packs).value();
  return compiled(cuda_prelude() + (code.procedures ? cuda_procedures() : "") + "\n" + code.text, target).kernels;
}

// What machine code may cost beyond the budgets below. They hold exactly for the version that tools/pins.txt names; the
// register allocators of others may keep some words per thread in local memory and take some registers more. A tile or a
// table that stands in local memory has ten times as many words.
constexpr const char* kBudgetVersion = "13.0";
struct Slack {
  int words = 0, accesses = 0, registers = 0;
};
const Slack& slack() {
  static const Slack is = nvrtc_version() == kBudgetVersion ? Slack{} : Slack{8, 24, 8};
  return is;
}

void expect_no_local_memory(const CudaKernelFacts& kernel) {
  EXPECT_LE(kernel.frame_bytes, 4 * slack().words) << kernel.name;
  EXPECT_LE(kernel.spill_load_bytes + kernel.spill_store_bytes, 4 * slack().accesses) << kernel.name;
  EXPECT_LE(kernel.instructions.local_loads + kernel.instructions.local_stores, slack().accesses) << kernel.name;
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
  expect_no_local_memory(kernels[0]);
}

// NVRTC 13.0 breaks down over this one where the loop over r0 counts in 64 bits.
TEST_P(GeneratedCode, SumsOfOneBlockInALoopCompile) {
  std::vector<CudaKernelFacts> kernels =
      facts_of(R"(kernel @reduce_sum(in x: f32[6,12,20], out y: f32[20], out n: f32[]) {
  axes r0 = 20, r1 = 6, r2 = 12
  schedule unit 1 units 1 threads 1
  let sums[r0]: f32 = sum(r1, r2) x[r1, r2, r0]
  let squares: f32 = sum(r0) sums[r0] * sums[r0]
  store y[r0] over r0 = sums[r0]
  store n[] = squares
})",
               GetParam());
  ASSERT_EQ(kernels.size(), 1u);
  expect_no_local_memory(kernels[0]);
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
  expect_no_local_memory(kernels[0]);
  EXPECT_GE(kernels[0].instructions.ffma, 2 * 16);  // a step of k and more, unrolled
}

struct AttentionText {
  std::string dtype = "bf16";
  int64_t features = 64, out = 64, streams = 0;
  std::string mask = "";
  bool grad = false;
};
std::string text_of(const AttentionText& a) {
  auto tensor = [&](const char* name, int64_t width) { return fmt::format("{}: {}[1,8,128,{}]", name, a.dtype, width); };
  std::string in = fmt::format("in {}, in {}, in {}", tensor("q", a.features), tensor("k", a.features), tensor("v", a.out));
  std::string out = fmt::format("out {}, out lse: f32[1,8,128]", tensor("y", a.out));
  if (a.grad) {
    in += fmt::format(", in lse: f32[1,8,128], in delta: f32[1,8,128], in {}", tensor("ct", a.out));
    out = fmt::format("out {}, out {}, out {}", tensor("dq", a.features), tensor("dk", a.features), tensor("dv", a.out));
  }
  if (!a.mask.empty()) in += fmt::format(", in mask: {}[1,8,128,128]", a.mask);
  if (a.streams > 0) in += ", in key: u32[1,2]";
  return fmt::format(
      "kernel @attention({}, {}) {{\n  procedure {}(outer=8, count=128, inner=1, heads=8, kv_heads=8, keys=128, features={}, "
      "out={}, causal=1, mask_batch={}, mask_heads=8, scale=1040187392, streams={}, least=429496729, kept=1066180152, "
      "diagonal=0, word=0, word_batch=131072, word_head=16384, word_query=128)\n}}\n",
      in, out, a.grad ? "attention_grad" : "attention", a.features, a.out, a.mask.empty() ? 0 : 1, a.streams);
}

// There and back, with dropout and without: tiles in shared memory, results in registers.
TEST_P(GeneratedCode, AttentionKeepsNothingInLocalMemory) {
  std::vector<AttentionText> all = {{"f32", 256, 256}, {"bf16", 192, 128, 1}, {"bf16", 64, 64, 0, "f32"}, {"bf16", 256, 256, 1, "f32"}};
  for (int64_t streams : {0, 1}) all.push_back({"bf16", 64, 64, streams}), all.push_back({"f16", 256, 256, streams});
  for (AttentionText a : all)
    for (bool grad : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {} {} {} {}", a.dtype, a.features, a.out, a.streams, a.mask));
      a.grad = grad;
      std::vector<CudaKernelFacts> kernels = facts_of(text_of(a), GetParam());
      ASSERT_EQ(kernels.size(), !grad ? 1u : a.features + a.out > 256 ? 3u : 2u);
      bool warpgroups = std::string(GetParam()) == "sm_90a" && a.features % 64 == 0 && a.out % 64 == 0;
      for (const CudaKernelFacts& k : kernels) {
        expect_no_local_memory(k);
        const InstructionCounts& n = k.instructions;
        EXPECT_GT(a.dtype == "f32" ? n.ffma : warpgroups ? n.hgmma : n.hmma, 0) << k.name;
      }
    }
}

// A large tile's kernel; `b` is "k, n" or "n, k".
std::string product_of(const std::string& dtype, const std::string& b, int rows = 256) {
  return fmt::format(R"(kernel @matmul(in a: {0}[{2},256], in b: {0}[256,256], out y: {0}[{2},256]) {{
  axes m = {2}, n = 256, k = 256
  contract acc[m, n]: f32 = sum(k) convert.f32(a[m, k]) * convert.f32(b[{1}])
  store y[m, n] over m, n = convert.{0}(acc[m, n])
}})",
                     dtype, b, rows);
}

// Copied ahead, two blocks beside each other on every GPU, nothing spilled.
TEST_P(GeneratedCode, ProductsOnTensorCoresCopyTheirTilesAhead) {
  ir::Target target = target_named(GetParam());
  target.tf32 = true;
  for (const char* dtype : {"bf16", "f16", "f32"})
    for (const char* b : {"k, n", "n, k"}) {
      SCOPED_TRACE(std::string(dtype) + " " + b);
      const bool by_warpgroups = std::string(dtype) != "f32" && std::string(GetParam()) == "sm_90a";
      // So many rows that multiprocessors get a second block: those with one alone copy further ahead.
      kernel_ir::Kernel k = kernel_ir::parse_kernel(product_of(dtype, b, by_warpgroups ? 12800 : 256), "kernel").value();
      CudaKernel code = kernel_ir::print_for_gpu(k, "nk_matmul", target).value();
      CudaKernelFacts facts = compiled(std::string(cuda_prelude()) + "\n" + code.text, GetParam()).kernels.at(0);
      const InstructionCounts& n = facts.instructions;
      if (by_warpgroups) {
        EXPECT_EQ(n.hgmma, 4);                  // 64 x 128 results, four steps of k
        EXPECT_EQ(n.async_copies.bytes16, 16);  // four of each factor, before the first tile and in the loop
      } else {
        EXPECT_GE(n.hmma, 32);                 // 4 x 4 fragments, two steps of k
        EXPECT_EQ(n.async_copies.bytes16, 4);  // two of each factor, in one place
        EXPECT_GE(n.matrix_loads, std::string(dtype) == "f32" && b[0] == 'k' ? 8 : 12);
      }
      expect_no_local_memory(facts);
      EXPECT_EQ(n.ffma, 0);
      EXPECT_EQ(occupancy(facts, target, code.grids[0].threads, code.grids[0].shared_bytes).warps, 16);
    }
}

// What is on its way stands in registers.
TEST_P(GeneratedCode, ScattersTakeNoLocalMemory) {
  std::vector<CudaKernelFacts> kernels =
      facts_of(R"(kernel @table_grad(in ids: i32[4,512], in ct: bf16[4,512,768], out table: bf16[50257,768]) {
  axes b = 4, t = 512, j = 768
  for b, t {
    store table[convert.i64(ids[b, t]), j] over j sum= ct[b, t, j]
      if convert.i64(ids[b, t]) >= 0 & convert.i64(ids[b, t]) < 50257
  }
})",
               GetParam());
  ASSERT_EQ(kernels.size(), 2u);  // the first clears the table
  expect_no_local_memory(kernels[0]);
  EXPECT_EQ(kernels[0].instructions.global_loads.narrow, 16);  // eight updates, eight places
}

TEST_P(GeneratedCode, SortsTakeNoLocalMemory) {
  for (const char* procedure : {"argsort(outer=64, count=1000, inner=1, descending=1)",
                                "top_k(outer=64, count=50257, inner=1, k=50, largest=1)"}) {
    bool top = procedure[0] == 't';
    std::vector<CudaKernelFacts> kernels =
        facts_of(fmt::format("kernel @sort(in x: f32[64,{0}], {1}out y: i32[64,{2}]) {{\n  procedure {3}\n}}\n",
                             top ? 50257 : 1000, top ? "out v: f32[64,50], " : "", top ? 50 : 1000, procedure),
                 GetParam());
    expect_no_local_memory(kernels.at(0));
    EXPECT_LE(kernels.at(0).registers, 64 + slack().registers) << procedure;
  }
}

TEST_P(GeneratedCode, MergesTakeNoLocalMemory) {
  for (const char* dtype : {"f32", "f64"}) {
    std::vector<CudaKernelFacts> kernels =
        facts_of(fmt::format("kernel @sort(in x: {}[4,100000], out y: i32[4,100000], workspace scratch: u8[8,{}]) {{\n"
                             "  procedure argsort(outer=4, count=100000, inner=1, descending=1)\n}}\n",
                             dtype, 100000 * (dtype[1] == '3' ? 8 : 16)),
                 GetParam());
    ASSERT_EQ(kernels.size(), 6u);  // parts of 4,096, then five doublings
    for (const CudaKernelFacts& facts : kernels) {
      expect_no_local_memory(facts);
      EXPECT_LE(facts.registers, 64 + slack().registers) << facts.name;
    }
  }
}

TEST_P(GeneratedCode, MatricesAndTransformsByBlocksTakeNoLocalMemory) {
  for (const char* text : {"kernel @c(in x: f32[2,200,200], out y: f32[2,200,200], workspace s: u8[2,320000]) {\n"
                           "  schedule unit 1 units 2\n  procedure cholesky(outer=2, count=200, inner=1)\n}",
                           "kernel @t(in x: f32[2,99,99], in b: f32[2,99,3], out y: f32[2,99,3], "
                           "workspace s: u8[2,80784]) {\n  schedule unit 1 units 2\n"
                           "  procedure triangular_solve(outer=2, count=99, inner=1, k=3, left=1, lower=1, "
                           "transpose=0, unit=0)\n}",
                           "kernel @f(in a: f32[2,131], in b: f32[2,131], out re: f32[2,131], out im: f32[2,131], "
                           "workspace s: u8[2,34912]) {\n  schedule unit 1 units 2\n"
                           "  procedure fft(outer=2, count=131, inner=1, inverse=0)\n}"}) {
    CudaKernelFacts facts = facts_of(text, GetParam()).at(0);
    SCOPED_TRACE(text);
    expect_no_local_memory(facts);
    EXPECT_LE(facts.registers, 128 + slack().registers);
  }
}

// A warp's accesses are neighbours, four of each element's under way; what a thread keeps stands in registers.
TEST_P(GeneratedCode, RunningSumsTakeNoLocalMemory) {
  for (const char* procedure : {"cumsum", "cumargmin"})
    for (const char* dtype : {"f32", "i64"})
      for (const char* sizes :
           {"outer=4, count=100000, inner=1", "outer=64, count=6250, inner=1", "outer=4000, count=100, inner=1",
            "outer=4, count=100, inner=1000", "outer=40000, count=10, inner=1"}) {
        bool places = procedure[3] == 'a';
        std::string text = fmt::format(
            "kernel @scan(in x: {0}[400000], out y: {1}[400000]) {{\n"
            "  procedure {2}({3}, reverse=0{4})\n}}\n",
            dtype, places ? "i32" : dtype, procedure, sizes, places ? "" : ", exclusive=0");
        SCOPED_TRACE(text);
        CudaKernelFacts facts = facts_of(text, GetParam()).at(0);
        expect_no_local_memory(facts);
        EXPECT_LE(facts.registers, 64 + slack().registers);
      }
}

// Both factors' tiles are boxes, one where k is fastest, else one for each 64 columns; threads copy nothing, and nothing spills.
TEST(GeneratedProducts, OfHalvesAreBroughtByTheCopyEngine) {
  for (auto [a, b, boxes] : {std::tuple{"m, k", "n, k", 2}, {"k, m", "k, n", 2 + 4}, {"m, k", "k, n", 1 + 4}}) {
    SCOPED_TRACE(fmt::format("a[{}] b[{}]", a, b));
    const bool a_rows = a[0] == 'm', b_rows = b[0] == 'n';
    const std::string text = fmt::format(R"(kernel @product(in a: bf16[{0}], in b: bf16[{1}], out y: bf16[4096,3072]) {{
  axes m = 4096, n = 3072, k = 2048
  contract acc[m, n]: f32 = sum(k) convert.f32(a[{2}]) * convert.f32(b[{3}])
  store y[m, n] over m, n = convert.bf16(acc[m, n])
}})",
                                         a_rows ? "4096,2048" : "2048,4096", b_rows ? "3072,2048" : "2048,3072", a, b);
    const CudaKernelFacts brought = facts_of(text, "sm_90a", true).at(0), copied = facts_of(text, "sm_90a").at(0);
    EXPECT_EQ(brought.instructions.hgmma, 4);
    EXPECT_EQ(brought.instructions.boxes, 2 * boxes);  // before the loop and in it
    EXPECT_EQ(brought.instructions.async_copies, AccessCounts{});
    EXPECT_LE(brought.registers, copied.registers + slack().registers);
    expect_no_local_memory(brought);
    EXPECT_EQ(copied.instructions.boxes, 0);
    EXPECT_GT(copied.instructions.async_copies.bytes16, 0);
  }
}

// By the chip's own mma where it has one, by wgmma where k is fastest in both factors; else the compiler converts to f16.
TEST(GeneratedProducts, OfBytesRunOnTensorCores) {
  for (const char* b : {"k, n", "n, k"})
    for (const char* target : {"sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"}) {
      SCOPED_TRACE(fmt::format("{} b[{}]", target, b));
      const bool rows = b[0] == 'n', warpgroups = rows && std::string(target) == "sm_90a";
      CudaKernelFacts facts = facts_of(
          fmt::format(R"(kernel @product(in a: f8e4m3[512,768], in b: f8e5m2[{0}], out y: bf16[512,640]) {{
  axes m = 512, n = 640, k = 768
  contract acc[m, n]: f32 = sum(k) convert.f32(a[m, k]) * convert.f32(b[{1}])
  store y[m, n] over m, n = convert.bf16(acc[m, n])
}})",
                      rows ? "640,768" : "768,640", b),
          target).at(0);
      const InstructionCounts& n = facts.instructions;
      const bool own = std::string(target) == "sm_89" || std::string(target) == "sm_120";
      EXPECT_EQ(n.hgmma, warpgroups ? 4 : 0);
      EXPECT_EQ(n.qmma > 0, own);
      EXPECT_EQ(n.hmma > 0, !own && !warpgroups);
      expect_no_local_memory(facts);
    }
}

// Windows are taken apart while tiles are copied; nothing spills, and channels go by eight.
TEST_P(GeneratedCode, ConvolutionsOfHalvesRunOnTensorCores) {
  std::vector<CudaKernelFacts> kernels = facts_of(
      R"(kernel @conv(in x: bf16[32,28,28,64], in w: bf16[3,3,64,128], in b: bf16[128],
             out y: bf16[32,28,28,128]) {
  axes n = 32, o0 = 28, o1 = 28, k0 = 3, k1 = 3, c = 64, f = 128
  for n, o0, o1, f {
    let s: f32 = sum(k0, k1, c) convert.f32(
      (x[n, o0 + k0 - 1, o1 + k1 - 1, c] if (o0 + k0 >= 1 & o0 + k0 < 29) & (o1 + k1 >= 1 & o1 + k1 < 29)
        else 0.0:bf16)) * convert.f32(w[k0, k1, c, f])
    store y[n, o0, o1, f] = convert.bf16(maximum(s + convert.f32(b[f]), 0.0:f32))
  }
})",
      GetParam());
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_GE(kernels[0].instructions.hmma, 32);
  EXPECT_EQ(kernels[0].instructions.async_copies.bytes16, 4);
  expect_no_local_memory(kernels[0]);
}

// By multiply-adds with 16 sums per thread in registers, or on tensor cores where f32 may be rounded; in groups, too.
TEST_P(GeneratedCode, ConvolutionsOfF32KeepTheirTilesInRegisters) {
  for (int groups : {1, 4})
    for (bool tf32 : {false, true}) {
      SCOPED_TRACE(fmt::format("{} groups, tf32 {}", groups, tf32));
      ir::Target target = target_named(GetParam());
      target.tf32 = tf32;
      int features = 128 / groups, channels = 64 / groups;
      std::string text =
          fmt::format(R"(kernel @conv(in x: f32[32,28,28,64], in w: f32[3,3,{0},128], in b: f32[128],
          out y: f32[32,28,28,128]) {{
  axes n = 32, o0 = 28, o1 = 28, k0 = 3, k1 = 3, c = {0}, f = 128
  for n, o0, o1, f {{
    let s: f32 = sum(k0, k1, c)
      (x[n, o0 + k0 - 1, o1 + k1 - 1, {1}c] if (o0 + k0 >= 1 & o0 + k0 < 29) & (o1 + k1 >= 1 & o1 + k1 < 29)
        else 0.0:f32) * w[k0, k1, c, f]
    store y[n, o0, o1, f] = maximum(s + b[f], 0.0:f32)
  }}
}})",
                      channels, groups > 1 ? fmt::format("floordiv(f, {}) * {} + ", features, channels) : "");
      kernel_ir::Kernel k = kernel_ir::parse_kernel(text, "kernel").value();
      CudaKernel code = kernel_ir::print_for_gpu(k, "nk_conv", target).value();
      CudaKernelFacts facts = compiled(std::string(cuda_prelude()) + "\n" + code.text, GetParam()).kernels.at(0);
      expect_no_local_memory(facts);
      EXPECT_EQ(facts.instructions.hmma > 0, tf32);
      EXPECT_GE(tf32 ? facts.instructions.hmma : facts.instructions.ffma, tf32 ? 16 : 2 * 16);
      EXPECT_LE(facts.registers, 128 + slack().registers);
    }
}

// A batch, a size of the run, a bias, a residual and a gelu beside the sums.
TEST_P(GeneratedCode, WhatFollowsAProductTakesNoLocalMemory) {
  auto rows = std::make_shared<ir::Symbol>(ir::Symbol{"n", 1, 300, 1});
  kernel_ir::ReadSize size = [&](std::string_view) -> Result<ir::Dim> { return ir::Dim::symbol(rows); };
  ir::Target target = target_named(GetParam());
  target.tf32 = true;
  for (const char* dtype : {"bf16", "f32"}) {
    std::string text = fmt::format(
        R"(kernel @layer(in a: {0}[12,dim(n),256], in w: {0}[12,256,256], in b: {0}[256],
              in r: {0}[12,dim(n),256], out y: {0}[12,dim(n),256]) {{
  axes h = 12, m = dim(n), n = 256, k = 256
  contract acc[h, m, n]: f32 = sum(k) convert.f32(a[h, m, k]) * convert.f32(w[h, k, n])
  let z[h, m, n]: f32 = acc[h, m, n] + convert.f32(b[n])
  store y[h, m, n] over h, m, n = convert.{0}(
    0.5:f32 * z[h, m, n] * (1.0:f32 + erf(z[h, m, n] * 0.70710678:f32)) + convert.f32(r[h, m, n]))
}})",
        dtype);
    kernel_ir::Kernel k = kernel_ir::parse_kernel(text, "kernel", size).value();
    CudaKernel code = kernel_ir::print_for_gpu(k, "nk_layer", target).value();
    CudaKernelFacts facts = compiled(std::string(cuda_prelude()) + "\n" + code.text, GetParam()).kernels.at(0);
    EXPECT_GE(facts.instructions.hmma + 8 * facts.instructions.hgmma, 32) << dtype;
    expect_no_local_memory(facts);
  }
}

// Without the option f32 stays f32. The largest tiles: six of seven instructions that a tile of k takes multiply and add, and two
// blocks stand beside each other.
TEST_P(GeneratedCode, ProductsOfF32MultiplyAndAdd) {
  ir::Target target = target_named(GetParam());
  target.cuda.multiprocessors = 4;
  for (const char* b : {"k, n", "n, k"}) {
    SCOPED_TRACE(b);
    kernel_ir::Kernel k = kernel_ir::parse_kernel(product_of("f32", b), "kernel").value();
    CudaKernel code = kernel_ir::print_for_gpu(k, "nk_matmul", target).value();
    CudaKernelFacts facts = compiled(std::string(cuda_prelude()) + "\n" + code.text, GetParam()).kernels.at(0);
    EXPECT_EQ(facts.instructions.hmma, 0);
    expect_no_local_memory(facts);
    EXPECT_EQ(occupancy(facts, target, code.grids[0].threads, code.grids[0].shared_bytes).warps, 16);
    const auto main = std::ranges::max_element(facts.code.loops, {}, [](const CodeLoop& l) { return l.own.ffma; });
    EXPECT_EQ(main->own.ffma, 64 * kernel_ir::kThreadTileK);
    EXPECT_EQ(main->own.shared_loads.bytes16, 4 * kernel_ir::kThreadTileK);
    EXPECT_GE(7 * main->own.ffma, 6 * (main->own.all - main->skipped)) << main->own.all << " " << main->skipped;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, GeneratedCode,
                         testing::ValuesIn(some_of<std::string>({"sm_80", "sm_90a", "sm_86", "sm_100a", "sm_120"}, 2)),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace nabla::codegen
