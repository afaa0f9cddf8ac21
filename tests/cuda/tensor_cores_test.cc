// Generated products on tensor cores, run thread by thread on the CPU, against the interpreter.
#include <gtest/gtest.h>

#include <regex>

#include "tests/cuda/kernel_text.h"
#include "tests/nightly.h"

namespace nabla::kernel_ir {
namespace {

// Products on tensor cores: tiles cut by awkward sizes, operands whose fast axis is k or is not, copies of 16 bytes or
// single elements, a large tile, a batch, an epilogue.
struct Shape {
  int64_t m, n, k;
};
class Products : public testing::TestWithParam<Shape> {
 protected:
  std::string kernel(const std::string& a, const std::string& b, const std::string& dtype) const {
    auto [m, n, k] = GetParam();
    std::string type_a = a == "m, k" ? fmt::format("{},{}", m, k) : fmt::format("{},{}", k, m);
    std::string type_b = b == "k, n" ? fmt::format("{},{}", k, n) : fmt::format("{},{}", n, k);
    return fmt::format(R"(kernel @product(in a: {0}[{1}], in b: {0}[{2}], in c: f32[{4}], out y: f32[{3},{4}]) {{
  axes m = {3}, n = {4}, k = {5}
  contract acc[m, n]: f32 = sum(k) convert.f32(a[{6}]) * convert.f32(b[{7}])
  store y[m, n] over m, n = maximum(acc[m, n] + c[n], 0.0:f32)
}})",
                       dtype, type_a, type_b, m, n, k, a, b);
  }
  // Products of f32, factors rounded to tf32.
  void expect_tf32(const std::string& a, const std::string& b) const {
    ir::Target target = gpu();
    target.tf32 = true;
    expect_text(kernel(a, b, "f32"), target, {.tolerance = 1e-3});
  }
};

TEST_P(Products, RowsTimesColumns) { expect_text(kernel("m, k", "k, n", "bf16")); }
TEST_P(Products, RowsTimesRows) { expect_text(kernel("m, k", "n, k", "f16")); }
TEST_P(Products, ColumnsTimesColumns) { expect_text(kernel("k, m", "k, n", "bf16")); }
TEST_P(Products, ColumnsTimesRows) { expect_text(kernel("k, m", "n, k", "f16"), gpu(), {.as_gpus_round = true}); }
TEST_P(Products, RowsTimesColumnsInTf32) { expect_tf32("m, k", "k, n"); }
TEST_P(Products, RowsTimesRowsInTf32) { expect_tf32("m, k", "n, k"); }
TEST_P(Products, ColumnsTimesColumnsInTf32) { expect_tf32("k, m", "k, n"); }

std::vector<Shape> product_sizes() {
  return some_of<Shape>({{16, 8, 16}, {37, 50, 61}, {72, 136, 40}, {136, 200, 136}, {64, 64, 32}, {24, 16, 136}, {129, 65, 33},
                         {1100, 24, 16}},
                        3);
}
INSTANTIATE_TEST_SUITE_P(Sizes, Products, testing::ValuesIn(product_sizes()),
                         [](const auto& info) {
                           return fmt::format("{}x{}x{}", info.param.m, info.param.n, info.param.k);
                         });

// The widest tiles of warps and of warpgroups, which a GPU of few multiprocessors takes for few results.
class WidestTiles : public Products {};
TEST_P(WidestTiles, OfWarpsAndOfWarpgroups) {
  using Factors = std::tuple<const char*, const char*, const char*>;
  const auto factors = some_of<Factors>({{"m, k", "n, k", "bf16"},
                                         {"k, m", "k, n", "f16"},
                                         {"m, k", "k, n", "f16"},
                                         {"k, m", "n, k", "bf16"},
                                         {"m, k", "k, n", "f32"}},
                                        1);
  for (const char* name : {"sm_80", "sm_90a"})
    for (auto [a, b, dtype] : factors) {
      SCOPED_TRACE(fmt::format("{}: {} a[{}] b[{}]", name, dtype, a, b));
      ir::Target few = ir::find_target(name).value();
      few.cuda.multiprocessors = 1;
      few.tf32 = true;
      std::string text = kernel(a, b, dtype);
      std::string printed = print_for_gpu(parse_kernel(text, "product").value(), "nk_product", few).value().text;
      bool halves = std::string(dtype) != "f32", warpgroups = halves && std::string(name) == "sm_90a";
      EXPECT_EQ(printed.find("nb_wg_mma") != std::string::npos, warpgroups) << printed;
      EXPECT_NE(printed.find(warpgroups ? "acc_[1][32][4]" : "acc_[4][8][4]"), std::string::npos) << printed;
      expect_text(text, few, {.tolerance = halves ? 1e-4 : 1e-3});
    }
}
std::vector<Shape> widest_sizes() { return some_of<Shape>({{136, 264, 136}, {80, 512, 64}}, 1); }
INSTANTIATE_TEST_SUITE_P(Sizes, WidestTiles, testing::ValuesIn(widest_sizes()),
                         [](const auto& info) {
                           return fmt::format("{}x{}x{}", info.param.m, info.param.n, info.param.k);
                         });

// As many tiles of k as shared memory holds wait in a ring, whose slots are filled again when k has more tiles: six where each block has
// a multiprocessor of its own, three where two blocks share one, four of the widest tiles.
TEST(TensorCores, RingsOfTilesAreAsDeepAsSharedMemoryAllows) {
  struct Case {
    int stages, multiprocessors;
    int64_t m, n, k;
  };
  for (const Case& c : {Case{6, 132, 72, 136, 520}, Case{3, 1, 136, 96, 264}, Case{4, 1, 72, 264, 328}}) {
    ir::Target target = gpu();
    target.cuda.multiprocessors = c.multiprocessors;
    const std::string text = fmt::format(R"(kernel @product(in a: bf16[{0},{2}], in b: bf16[{2},{1}], out y: f32[{0},{1}]) {{
  axes m = {0}, n = {1}, k = {2}
  contract acc[m, n]: f32 = sum(k) convert.f32(a[m, k]) * convert.f32(b[k, n])
  store y[m, n] over m, n = acc[m, n]
}})",
                                         c.m, c.n, c.k);
    SCOPED_TRACE(text);
    codegen::CudaKernel code = print_for_gpu(parse_kernel(text, "product").value(), "nk_product", target, true).value();
    EXPECT_NE(code.text.find(fmt::format("nb_copies_begin<{}>", c.stages)), std::string::npos) << code.text;
    const int blocks = c.stages == 3 ? 2 : 1;
    EXPECT_LE(blocks * (code.grids[0].shared_bytes + 1024), target.cuda.shared_bytes);
    EXPECT_LE(code.grids[0].shared_bytes, target.cuda.block_shared_bytes);
    if (c.multiprocessors > 1 || is_nightly()) expect_text(text, target);
  }
}

// Factors are rounded to nearest: with 1 + 2^-11 on both sides truncation would give 1.
TEST(TensorCores, FactorsAreRoundedToTf32OnlyWhereTheTargetSaysSo) {
  Kernel k = parse_kernel(R"(kernel @product(in a: f32[16,16], in b: f32[16,16], out y: f32[16,16]) {
  axes m = 16, n = 16, k = 16
  contract acc[m, n]: f32 = sum(k) a[m, k] * b[k, n]
  store y[m, n] over m, n = acc[m, n]
})",
                          "product")
                 .value();
  ir::Target tf32 = gpu();
  tf32.tf32 = true;
  std::vector<Literal> buffers = draw_buffers(k);
  for (int b : {0, 1})
    for (int64_t i = 0; i < buffers[b].size(); ++i) buffers[b].set(i, 1 + 0x1p-11);
  for (const ir::Target& target : {gpu(), tf32}) {
    codegen::CudaKernel code = print_for_gpu(k, "nk_product", target).value();
    auto object = emulator::Object::compile(codegen::cuda_prelude() + code.text, false).value();
    emulator::KernelRun run = emulator::run_kernel(k, code, *object, false, buffers, {}, {});
    double factor = target.tf32 ? 1 + 0x1p-10 : 1 + 0x1p-11;
    EXPECT_FLOAT_EQ(run.buffers[2].get(0), 16 * factor * factor);
    EXPECT_EQ(code.text.find("nb_mma_1688_tf32") != std::string::npos, target.tf32);
  }
}

TEST(TensorCores, BatchesOfHalves) {
  expect_text(R"(kernel @scores(in q: f16[3,40,24], in k: f16[3,33,24], out s: f32[3,40,33]) {
  axes b = 3, i = 40, t = 33, d = 24
  contract acc[b, i, t]: f32 = sum(d) convert.f32(q[b, i, d]) * convert.f32(k[b, t, d])
  store s[b, i, t] over b, i, t = acc[b, i, t] * 0.2:f32
})");
}

// What the copy engine takes of arrays: dimensions of its maps, 0 where threads copy. Heads that lie inside of rows, parts of wider
// rows, arrays that some of the batch share, a result's tiles with nothing to the right or below.
TEST(CopyEngine, BringsBoxesOfEveryLayoutThatItKnows) {
  struct Case {
    const char *arrays, *result, *batch, *a, *b;
    std::vector<size_t> dimensions;
  };
  const Case cases[] = {
      {"in a: bf16[2,80,72], in b: bf16[2,72,96], out y: f32[2,80,96]", "z, m, n", "z = 2, ", "a[z, m, k]", "b[z, k, n]", {3, 3}},
      {"in a: bf16[2,80,3,72], in b: bf16[2,96,3,72], out y: f32[2,3,80,96]", "z, h, m, n", "z = 2, h = 3, ", "a[z, m, h, k]",
       "b[z, n, h, k]", {4, 4}},
      {"in a: bf16[80,3,72], in b: bf16[72,96], out y: f32[3,80,96]", "h, m, n", "h = 3, ", "a[m, h, k]", "b[k, n]", {3, 2}},
      {"in a: f16[80,200], in b: f16[3,96,200], out y: f32[3,80,96]", "h, m, n", "h = 3, ", "a[m, k + 64]", "b[h, n, k + 8]", {2, 3}},
      {"in a: f16[2,2,2,72,80], in b: f16[2,72,96], out y: f32[2,2,2,80,96]", "u, v, z, m, n", "u = 2, v = 2, z = 2, ", "a[u, v, z, k, m]",
       "b[u, k, n]", {5, 3}},
      // An element beyond a part of 16 bytes; six dimensions; a row for which the other array has none.
      {"in a: f16[80,201], in b: f16[96,72], out y: f32[80,96]", "m, n", "", "a[m, k + 64]", "b[n, k]", {}},
      {"in a: f16[80,200], in b: f16[96,72], out y: f32[80,96]", "m, n", "", "a[m, k + 1]", "b[n, k]", {}},
      {"in a: f16[2,2,2,2,72,80], in b: f16[2,72,96], out y: f32[2,2,2,2,80,96]", "u, v, z, w, m, n", "u = 2, v = 2, z = 2, w = 2, ",
       "a[u, v, z, w, k, m]", "b[u, k, n]", {}},
      {"in a: f16[72], in b: f16[96,72], out y: f32[80,96]", "m, n", "", "a[k]", "b[n, k]", {}},
  };
  int left = is_nightly() ? 100 : 2;  // cases whose results are compared, not only their code
  for (const Case& c : cases) {
    SCOPED_TRACE(c.a);
    const std::string text = fmt::format(R"(kernel @product({0}) {{
  axes {1}m = 80, n = 96, k = 72
  contract acc[{2}]: f32 = sum(k) convert.f32({3}) * convert.f32({4})
  store y[{2}] over {2} = acc[{2}]
}})",
                                         c.arrays, c.batch, c.result, c.a, c.b);
    auto k = parse_kernel(text, "product");
    ASSERT_TRUE(k.ok()) << to_string(k.errors()) << text;
    std::vector<size_t> got;
    for (const TensorMap& m : print_for_gpu(*k, "nk_product", gpu(), true).value().grids[0].maps) got.push_back(m.sizes.size());
    EXPECT_EQ(got, c.dimensions) << text;
    if (left-- > 0) expect_text(text);
  }
}

// Sums of products over windows are products too: of matrices whose rows, columns and depth are several axes each. In
// halves, in f32 by multiply-adds, and in f32 rounded to tf32.
void expect_windows(const std::string& text) {
  auto printed = [](const std::string& kernel, const ir::Target& target) {
    return print_for_gpu(parse_kernel(kernel, "windows").value(), "nk_windows", target).value().text;
  };
  EXPECT_NE(printed(text, gpu()).find("nb_mma_16816"), std::string::npos) << printed(text, gpu());
  expect_text(text);
  std::string plain = std::regex_replace(text, std::regex("bf16|f16"), "f32");
  EXPECT_NE(printed(plain, gpu()).find("a_tile_"), std::string::npos) << printed(plain, gpu());
  EXPECT_EQ(printed(plain, gpu()).find("nb_mma"), std::string::npos);
  expect_text(plain);
  ir::Target tf32 = gpu();
  tf32.tf32 = true;
  EXPECT_NE(printed(plain, tf32).find("nb_mma_1688_tf32"), std::string::npos);
  expect_text(plain, tf32, {.tolerance = 1e-3});
}

// Channels by packs of eight, or one by one.
TEST(Windows, Convolution) {
  for (int c : {8, 3})
    expect_windows(fmt::format(
        R"(kernel @conv(in x: bf16[2,7,6,{0}], in w: bf16[3,3,{0},16], in b: f32[16],
             out y: bf16[2,7,6,16]) {{
  axes n = 2, o0 = 7, o1 = 6, k0 = 3, k1 = 3, c = {0}, f = 16
  for n, o0, o1, f {{
    let s: f32 = sum(k0, k1, c) convert.f32(
      (x[n, o0 + k0 - 1, o1 + k1 - 1, c] if (o0 + k0 >= 1 & o0 + k0 < 8) & (o1 + k1 >= 1 & o1 + k1 < 7)
        else 0.0:bf16)) * convert.f32(w[k0, k1, c, f])
    let t: f32 = s + b[f]
    store y[n, o0, o1, f] = convert.bf16(maximum(t, 0.0:f32))
  }}
}})",
        c));
}
TEST(Windows, GradientOfTheFilter) {
  expect_windows(R"(kernel @conv(in x: f16[2,9,9,8], in ct: f16[2,5,5,24], out w: f32[3,3,8,24]) {
  axes n = 2, o0 = 5, o1 = 5, k0 = 3, k1 = 3, c = 8, f = 24
  for k0, k1, c, f {
    let s: f32 = sum(n, o0, o1) convert.f32(
      (x[n, o0 * 2 + k0 - 1, o1 * 2 + k1 - 1, c]
        if (o0 * 2 + k0 >= 1 & o0 * 2 + k0 < 10) & (o1 * 2 + k1 >= 1 & o1 * 2 + k1 < 10) else 0.0:f16)) *
        convert.f32(ct[n, o0, o1, f])
    store w[k0, k1, c, f] = s
  }
})");
}
TEST(Windows, GradientOfTheInput) {
  expect_windows(R"(kernel @conv(in ct: bf16[2,6,7,16], in w: bf16[3,3,8,16], out x: bf16[2,8,9,8]) {
  axes n = 2, i0 = 8, i1 = 9, c = 8, k0 = 3, k1 = 3, f = 16
  for n, i0, i1, c {
    let s: f32 = sum(k0, k1, f) convert.f32(
      (ct[n, i0 - k0, i1 - k1, f] if (i0 >= k0 & i0 - k0 < 6) & (i1 >= k1 & i1 - k1 < 7) else 0.0:bf16)) *
        convert.f32(w[k0, k1, c, f])
    store x[n, i0, i1, c] = convert.bf16(s)
  }
})");
}

// Features of a group see its channels alone: the group is an axis of both factors.
TEST(Windows, ConvolutionInGroups) {
  for (int c : {8, 3})
    expect_windows(fmt::format(
        R"(kernel @conv(in x: bf16[2,5,6,{1}], in w: bf16[3,3,{0},24], in b: f32[24], out y: bf16[2,5,6,24]) {{
  axes n = 2, o0 = 5, o1 = 6, k0 = 3, k1 = 3, c = {0}, f = 24
  for n, o0, o1, f {{
    let s: f32 = sum(k0, k1, c) convert.f32(
      (x[n, o0 + k0 - 1, o1 + k1 - 1, floordiv(f, 12) * {0} + c]
        if (o0 + k0 >= 1 & o0 + k0 < 6) & (o1 + k1 >= 1 & o1 + k1 < 7) else 0.0:bf16)) * convert.f32(w[k0, k1, c, f])
    let t: f32 = s + b[f]
    store y[n, o0, o1, f] = convert.bf16(maximum(t, 0.0:f32))
  }}
}})",
        c, 2 * c));
}
TEST(Windows, GradientOfTheFilterInGroups) {
  expect_windows(R"(kernel @conv(in x: f16[2,9,9,16], in ct: f16[2,5,5,24], out w: f32[3,3,8,24]) {
  axes n = 2, o0 = 5, o1 = 5, k0 = 3, k1 = 3, c = 8, f = 24
  for k0, k1, c, f {
    let s: f32 = sum(n, o0, o1) convert.f32(
      (x[n, o0 * 2 + k0 - 1, o1 * 2 + k1 - 1, floordiv(f, 12) * 8 + c]
        if (o0 * 2 + k0 >= 1 & o0 * 2 + k0 < 10) & (o1 * 2 + k1 >= 1 & o1 * 2 + k1 < 10) else 0.0:f16)) *
        convert.f32(ct[n, o0, o1, f])
    store w[k0, k1, c, f] = s
  }
})");
}
TEST(Windows, GradientOfTheInputInGroups) {
  expect_windows(R"(kernel @conv(in ct: bf16[2,6,7,48], in w: bf16[3,3,8,48], out x: bf16[2,8,9,24]) {
  axes n = 2, i0 = 8, i1 = 9, c = 24, k0 = 3, k1 = 3, f = 16
  for n, i0, i1, c {
    let s: f32 = sum(k0, k1, f) convert.f32(
      (ct[n, i0 - k0, i1 - k1, floordiv(c, 8) * 16 + f] if (i0 >= k0 & i0 - k0 < 6) & (i1 >= k1 & i1 - k1 < 7)
        else 0.0:bf16)) * convert.f32(w[k0, k1, mod(c, 8), floordiv(c, 8) * 16 + f])
    store x[n, i0, i1, c] = convert.bf16(s)
  }
})");
}

// Every channel by itself has one column: too few for tiles.
TEST(Windows, FewColumnsAreNoProduct) {
  std::string text = R"(kernel @conv(in x: f32[2,9,9,24], in w: f32[3,3,1,24], out y: f32[2,7,7,24]) {
  axes n = 2, o0 = 7, o1 = 7, k0 = 3, k1 = 3, c = 1, f = 24
  for n, o0, o1, f {
    let s: f32 = sum(k0, k1, c) x[n, o0 + k0, o1 + k1, floordiv(f, 1) + c] * w[k0, k1, c, f]
    store y[n, o0, o1, f] = s
  }
})";
  Kernel k = parse_kernel(text, "windows").value();
  EXPECT_EQ(print_for_gpu(k, "nk_windows", gpu()).value().text.find("a_tile_"), std::string::npos);
  expect_text(text);
}
TEST(Windows, SeveralBatchesOfF64) {
  expect_text(R"(kernel @products(in a: f64[3,20,18], in b: f64[18,3,9], out y: f64[3,20,9]) {
  axes h = 3, i = 20, j = 9, t = 18
  for h, i, j {
    let s: f64 = sum(t) b[t, h, j] * a[h, i, t]
    store y[h, i, j] = s
  }
})");
}

}  // namespace
}  // namespace nabla::kernel_ir
