// Products with few results and long sums, on a GPU, cut along the sum into slices: the same numbers as uncut, by the interpreter
// and thread by thread.
#include <gtest/gtest.h>

#include "codegen/cuda/printer.h"
#include "passes/lower/schedule_kernels.h"
#include "tests/cuda/emulator/kernel_run.h"
#include "tests/kernel_ir/nine_kernels.h"
#include "tests/nightly.h"

namespace nabla::kernel_ir {
namespace {

// A GPU of four multiprocessors, each as fast as in a whole one: few enough slices for an emulator.
ir::Target gpu(const char* name = "sm_80") {
  ir::Target target = ir::find_target(name).value();
  const double share = 4.0 / target.cuda.multiprocessors;
  target.cuda.multiprocessors = 4, target.cuda.f32_tflops *= share, target.cuda.tensor_tflops *= share;
  return target;
}

Kernel parsed(const std::string& text, const ReadSize& size = {}) {
  auto k = parse_kernel(text, "kernel", size);
  EXPECT_TRUE(k.ok()) << (k.ok() ? "" : to_string(k.errors())) << text;
  return *k;
}

// What the interpreter makes of a kernel, from buffers that begin with those given.
std::vector<Literal> interpreted(const Kernel& k, std::vector<Literal> buffers) {
  buffers.resize(k.buffers.size());
  std::vector<Literal*> at;
  for (Literal& b : buffers) at.push_back(&b);
  interpret(k, at);
  return buffers;
}

struct Case {
  std::string text;
  ir::Target target = gpu();
  double tolerance = 2e-5;
};
std::string expect_split(const Case& c, int64_t slices) {
  Kernel whole = parsed(c.text), split = whole;
  passes::split_products(split, c.target);
  Status sound = verify(split);
  EXPECT_TRUE(sound.ok()) << to_string(sound.errors()) << print(split);
  if (!sound.ok() || split.buffers.size() != whole.buffers.size() + 1) {
    ADD_FAILURE() << "not split: " << print(split);
    return "";
  }
  EXPECT_EQ(split.buffers.back().shape[0].bounds().max, slices) << print(split);
  std::vector<Literal> given = draw_buffers(split), uncut(given.begin(), given.begin() + whole.buffers.size());
  std::vector<Literal> want = interpreted(whole, uncut), got = interpreted(split, given);
  got.resize(whole.buffers.size());
  expect_near(whole, want, got);

  auto code = print_for_gpu(split, "nk_split", c.target);
  EXPECT_TRUE(code.ok()) << to_string(code.errors());
  if (!code.ok()) return "";
  EXPECT_EQ(code->grids.size(), 2u) << code->text;
  emulator::expect_right(split, *code, given, {.tolerance = c.tolerance});
  auto at_packs = print_for_gpu(split, "nk_split", c.target, true).value();
  if (!at_packs.grids[0].maps.empty()) emulator::expect_right(split, at_packs, given, {.tolerance = c.tolerance});
  return code->text + at_packs.text;
}

std::string product(int64_t m, int64_t n, int64_t k, const std::string& a, const std::string& b, const std::string& dtype) {
  return fmt::format(R"(kernel @product(in a: {0}[{1}], in b: {0}[{2}], in c: {0}[{4}], out y: f32[{3},{4}]) {{
  axes m = {3}, n = {4}, k = {5}
  contract acc[m, n]: f32 = sum(k) convert.f32(a[{6}]) * convert.f32(b[{7}])
  store y[m, n] over m, n = maximum(acc[m, n] + convert.f32(c[n]), 0.0:f32)
}})",
                     dtype, a == "m, k" ? fmt::format("{},{}", m, k) : fmt::format("{},{}", k, m),
                     b == "k, n" ? fmt::format("{},{}", k, n) : fmt::format("{},{}", n, k), m, n, k, a, b);
}

// Slices of one length, and a last one that is shorter, by a multiple of what is copied at a time or not.
TEST(SplitProducts, OfEveryOrder) {
  for (auto [a, b, k] : {std::tuple{"m, k", "k, n", 1000}, {"k, m", "k, n", 1024}, {"m, k", "n, k", 997}, {"k, m", "n, k", 1000}})
    for (const char* dtype : some_of<const char*>({"bf16", "f32"}, k == 1024 ? 2 : 1)) {
      SCOPED_TRACE(fmt::format("a[{}] b[{}] {} of {}", a, b, k, dtype));
      std::string text = expect_split({product(32, 24, k, a, b, dtype)}, 4);
      EXPECT_EQ(text.find("end_of_k_") == std::string::npos, k == 1024) << text;
      EXPECT_EQ(text.find("nb_mma_16816") != std::string::npos, dtype[0] == 'b') << text;
    }
}

TEST(SplitProducts, InTf32) {
  ir::Target tf32 = gpu();
  tf32.tf32 = true;
  EXPECT_NE(expect_split({product(40, 64, 1012, "m, k", "k, n", "f32"), tf32, 1e-3}, 4).find("nb_mma_1688_tf32"), std::string::npos);
}

// A slice's tiles are copied by 16 bytes, also those at the end.
class ByWarpgroups : public testing::TestWithParam<const char*> {};
TEST_P(ByWarpgroups, OfEveryOrder) {
  const bool rows = GetParam()[0] == 'm';
  std::string text = expect_split({product(72, 136, 1016, GetParam(), rows ? "n, k" : "k, n", "f16"), gpu("sm_90a"), 1e-3}, 2);
  EXPECT_NE(text.find("nb_wg_mma"), std::string::npos) << text;
  EXPECT_NE(text.find("nb_cp_async_if<16>"), std::string::npos) << text;
  EXPECT_NE(text.find("nb_copy_box"), std::string::npos) << text;
}
INSTANTIATE_TEST_SUITE_P(Factors, ByWarpgroups, testing::ValuesIn(some_of<const char*>({"m, k", "k, m"}, 1)));

// Slices are added up by packs of 16 bytes, in order.
TEST(SplitProducts, SumsAreAddedByPacks) {
  std::string text = expect_split({product(32, 24, 1024, "k, m", "k, n", "f32")}, 4);
  EXPECT_NE(text.find("nb_load_pack<4>(parts4 + "), std::string::npos) << text;
  EXPECT_NE(text.find("nb_store_pack(y"), std::string::npos) << text;
}

// Batches, numbers at the head, several values and results, a residual, f64.
TEST(SplitProducts, WhatFollowsThemIsDoneOnce) {
  expect_split({R"(kernel @layer(in a: bf16[2,1500,24], in b: bf16[2,1500,40], in s: f32[1], in r: bf16[2,24,40],
      out y: f32[2,24,40], out z: f32[2,24,40]) {
  axes h = 2, m = 24, n = 40, k = 1500
  let scale: f32 = s[0] * 0.5:f32
  contract acc[h, m, n]: f32 = sum(k) convert.f32(a[h, k, m]) * convert.f32(b[h, k, n])
  let t[h, m, n]: f32 = acc[h, m, n] * scale + convert.f32(r[h, m, n])
  store y[h, m, n] over h, m, n = tanh(t[h, m, n])
  store z[h, m, n] over h, m, n = t[h, m, n] + acc[h, m, n]
})"},
               2);
  expect_split({R"(kernel @doubles(in a: f64[700,24], in b: f64[700,40], out y: f64[24,40]) {
  axes m = 24, n = 40, k = 700
  contract acc[m, n]: f64 = sum(k) a[k, m] * b[k, n]
  store y[m, n] over m, n = acc[m, n]
})"},
               2);
}

// More slices than are added at once.
TEST(SplitProducts, ManySlices) {
  ir::Target large = gpu();
  large.cuda.multiprocessors = 132;
  std::string text = expect_split({product(16, 16, 4000, "k, m", "k, n", "f32"), large}, 32);
  EXPECT_EQ(text.find("nb_load_pack<4>(parts4 + "), std::string::npos) << text;
}

// A sum whose length the caller decides: slices have one length, and there are as many as it takes.
TEST(SplitProducts, SizesOfTheRun) {
  for (const char* which : {"k", "m"}) {
    auto symbol = std::make_shared<ir::Symbol>(ir::Symbol{"s", 1, which[0] == 'k' ? 1024 : 48, 1});
    ReadSize size = [&](std::string_view) -> Result<ir::Dim> { return ir::Dim::symbol(symbol); };
    Kernel whole = parsed(fmt::format(R"(kernel @grad(in a: bf16[{0},{1}], in b: bf16[{0},48], in r: f32[{1},48], out y: f32[{1},48]) {{
  axes m = {1}, n = 48, k = {0}
  contract acc[m, n]: f32 = sum(k) convert.f32(a[k, m]) * convert.f32(b[k, n])
  store y[m, n] over m, n = acc[m, n] + r[m, n]
}})",  which[0] == 'k' ? "dim(s)" : "1024", which[0] == 'm' ? "dim(s)" : "32"), size), split = whole;
    passes::split_products(split, gpu());
    ASSERT_EQ(split.buffers.size(), whole.buffers.size() + 1) << print(split);
    auto code = print_for_gpu(split, "nk_split", gpu());
    ASSERT_TRUE(code.ok()) << to_string(code.errors());
    for (int64_t at : which[0] == 'k' ? std::vector<int64_t>{1, 256, 700} : std::vector<int64_t>{1, 48}) {
      SCOPED_TRACE(at);
      Kernel sized = with_sizes(split, [&](const ir::Dim& d) { return ir::Dim(d.eval([&](const ir::Symbol&) { return at; })); });
      emulator::expect_right(split, *code, draw_buffers(sized), {.extents = {at}});
    }
  }
}

TEST(SplitProducts, LeavesAloneWhatFillsTheMachineOrIsShort) {
  const ir::Target full = ir::find_target("sm_90a").value();
  for (const std::string& text : {product(8192, 768, 768, "m, k", "k, n", "bf16"), product(768, 3072, 8192, "k, m", "k, n", "bf16"),
                                  product(768, 2304, 8192, "k, m", "k, n", "bf16"), product(768, 768, 256, "m, k", "k, n", "bf16"),
                                  product(4096, 4096, 4096, "m, k", "k, n", "f32"), product(16, 16, 100, "m, k", "k, n", "f32")}) {
    Kernel k = parsed(text);
    passes::split_products(k, full);
    EXPECT_EQ(k.buffers.size(), 4u) << print(k);
  }
  Kernel cpu = parsed(product(32, 24, 2048, "k, m", "k, n", "f32"));
  passes::split_products(cpu, ir::find_target("cpu").value());
  EXPECT_EQ(cpu.buffers.size(), 4u);
}

// The gradient of a weight of GPT-2 124M, on an H100.
TEST(SplitProducts, FillTheMultiprocessors) {
  for (auto [m, n, dtype] : {std::tuple{768, 768, "bf16"}, {1024, 256, "bf16"}, {768, 768, "f32"}}) {
    const ir::Target target = ir::find_target("sm_90a").value();
    Kernel k = parsed(product(m, n, 8192, "k, m", "k, n", dtype));
    passes::split_products(k, target);
    ASSERT_EQ(k.buffers.size(), 5u) << m << " x " << n << " " << dtype;
    auto scheduled = scheduled_for_gpu(k, target);
    ASSERT_TRUE(scheduled.ok()) << to_string(scheduled.errors());
    const std::string printed = print(*scheduled);  // a product, and then teams
    EXPECT_EQ(print(parsed(printed)), printed);
    const Grid& g = std::get<CudaSchedule>(*scheduled->schedule).grids.at(0);
    EXPECT_GE(4 * g.blocks.bounds().max, 3 * target.cuda.multiprocessors) << print(k);
    EXPECT_LE(g.blocks.bounds().max, 4 * target.cuda.multiprocessors) << print(k);
    if (std::string(dtype) == "f32") {
      EXPECT_EQ(std::get<ProductMapping>(g.mapping).tile_rows, 128);
    }
  }
}

}  // namespace
}  // namespace nabla::kernel_ir
