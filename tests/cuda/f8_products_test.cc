// Generated products of 8-bit floats on tensor cores, run thread by thread on the CPU, against the interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/cuda/kernel_text.h"
#include "tests/nightly.h"

namespace nabla::kernel_ir {
namespace {

struct Shape {
  int64_t m, n, k;
};

std::string types(const std::string& axes, int64_t first, int64_t second, const char* order) {
  return axes == order ? fmt::format("{},{}", first, second) : fmt::format("{},{}", second, first);
}
std::string product(const Shape& s, const std::string& a, const std::string& b, const std::string& dtype_a,
                    const std::string& dtype_b) {
  return fmt::format(R"(kernel @product(in a: {0}[{2}], in b: {1}[{3}], in c: f32[{5}], out y: f32[{4},{5}]) {{
  axes m = {4}, n = {5}, k = {6}
  contract acc[m, n]: f32 = sum(k) convert.f32(convert.bf16(a[{7}])) * convert.f32(b[{8}])
  store y[m, n] over m, n = maximum(acc[m, n] * 0.125:f32 + c[n], 0.0:f32)
}})",
                     dtype_a, dtype_b, types(a, s.m, s.k, "m, k"), types(b, s.k, s.n, "k, n"), s.m, s.n, s.k, a, b);
}
std::string printed(const std::string& text, const ir::Target& target) {
  return print_for_gpu(parse_kernel(text, "product").value(), "nk_product", target).value().text;
}
ir::Target target_of(const std::string& name) { return ir::find_target(name).value(); }

class Products : public testing::TestWithParam<Shape> {
 protected:
  static void expect(const std::string& a, const std::string& b, const std::string& dtype_a, const std::string& dtype_b) {
    std::string text = product(GetParam(), a, b, dtype_a, dtype_b);
    EXPECT_NE(printed(text, target_of("sm_89")).find("nb_mma_16832("), std::string::npos);
    expect_text(text, target_of("sm_89"));
  }
};
TEST_P(Products, RowsTimesColumns) { expect("m, k", "k, n", "f8e4m3", "f8e4m3"); }
TEST_P(Products, RowsTimesRows) { expect("m, k", "n, k", "f8e5m2", "f8e4m3"); }
TEST_P(Products, ColumnsTimesColumns) { expect("k, m", "k, n", "f8e4m3", "f8e5m2"); }
TEST_P(Products, ColumnsTimesRows) { expect("k, m", "n, k", "f8e5m2", "f8e5m2"); }

std::vector<Shape> product_sizes() {
  return some_of<Shape>({{16, 8, 16}, {37, 50, 61}, {80, 144, 48}, {64, 64, 64}, {129, 65, 33}, {144, 208, 144}, {1100, 24, 16}}, 3);
}
INSTANTIATE_TEST_SUITE_P(Sizes, Products, testing::ValuesIn(product_sizes()),
                         [](const auto& info) {
                           return fmt::format("{}x{}x{}", info.param.m, info.param.n, info.param.k);
                         });

// Tiles of 128 x 128, also where halves would have wider ones.
TEST(F8Products, LargestTiles) {
  ir::Target few = target_of("sm_89");
  few.cuda.multiprocessors = 1;
  using Orders = std::pair<const char*, const char*>;
  for (auto [a, b] : some_of<Orders>({{"k, m", "k, n"}, {"m, k", "n, k"}, {"m, k", "k, n"}}, 1)) {
    std::string text = product({144, 272, 144}, a, b, "f8e4m3", "f8e5m2");
    EXPECT_NE(printed(text, few).find("acc_[4][4][4]"), std::string::npos) << printed(text, few);
    expect_text(text, few);
  }
}

// Every code of both formats meets every other: sums of one product each, NaN and infinities too.
TEST(F8Products, EveryCode) {
  for (auto [a, b] : {std::pair{"f8e4m3", "f8e5m2"}, {"f8e5m2", "f8e4m3"}})
    for (bool rows : {true, false}) {
      const std::string shape = rows ? "256,32" : "32,256";
      Kernel k = parse_kernel(fmt::format(R"(kernel @product(in a: {0}[{2}], in b: {1}[{2}], out y: f32[256,256]) {{
  axes m = 256, n = 256, k = 32
  contract acc[m, n]: f32 = sum(k) convert.f32(a[{3}]) * convert.f32(b[{4}])
  store y[m, n] over m, n = acc[m, n]
}})",
                                          a, b, shape, rows ? "m, k" : "k, m", rows ? "n, k" : "k, n"),
                              "product")
                     .value();
      std::vector<Literal> buffers = draw_buffers(k);
      for (int i : {0, 1}) {
        auto* bytes = static_cast<unsigned char*>(buffers[i].mutable_data());
        std::fill_n(bytes, buffers[i].size_bytes(), static_cast<unsigned char>(0));
        for (int code = 0; code < 256; ++code) bytes[rows ? code * 32 + 5 : 5 * 256 + code] = static_cast<unsigned char>(code);
      }
      codegen::CudaKernel printed = print_for_gpu(k, "nk_product", target_of("sm_89")).value();
      auto object = emulator::Object::compile(codegen::cuda_prelude() + printed.text, false).value();
      Literal got = emulator::run_kernel(k, printed, *object, false, buffers, {}, {}).buffers[2];
      for (int64_t i = 0; i < got.size(); ++i) {
        auto code = [&](int factor, int64_t j) { return buffers[factor].get(rows ? j * 32 + 5 : 5 * 256 + j); };
        double want = code(0, i / 256) * code(1, i % 256);
        ASSERT_TRUE(std::isnan(want) ? std::isnan(got.get(i)) : want == got.get(i)) << i << ": " << got.get(i) << ", not " << want;
      }
    }
}

// By warpgroups where k is fastest in both; else by warps, on sm_90a too.
TEST(F8Products, ByWarpgroups) {
  using Case = std::tuple<Shape, const char*, const char*, const char*>;
  for (auto [s, b, dtype_a, dtype_b] : some_of<Case>({{{80, 144, 144}, "k, n", "f8e4m3", "f8e4m3"},
                                                      {{129, 65, 400}, "n, k", "f8e5m2", "f8e5m2"},
                                                      {{144, 272, 144}, "n, k", "f8e4m3", "f8e5m2"},
                                                      {{80, 144, 528}, "n, k", "f8e5m2", "f8e4m3"}},
                                                     2)) {
    std::string text = product(s, "m, k", b, dtype_a, dtype_b);
    bool both = std::string(b) == "n, k";
    EXPECT_EQ(printed(text, gpu()).find("nb_wg_mma_bytes(") != std::string::npos, both) << printed(text, gpu());
    expect_text(text);
  }
}

// Tensor cores keep about 14 bits of sums of 8-bit floats: f32 must have what they add to. The sums are of 2,048 products.
TEST(F8Products, LongSumsAreKeptInF32) {
  using Case = std::pair<const char*, int64_t>;
  for (auto [target, side] : some_of<Case>({{"sm_89", 32}, {"sm_90a", 66}}, 1)) {
    std::string text = product({side, side, 2048}, "m, k", "n, k", "f8e4m3", "f8e4m3");
    expect_text(text, target_of(target), {.tolerance = 1e-3, .as_gpus_round = true});
  }
}

TEST(F8Products, BatchesWithAnAddend) {
  expect_text(R"(kernel @scores(in q: f8e4m3[3,40,48], in k: f8e5m2[3,33,48], in x: bf16[3,40,33], out s: bf16[3,40,33]) {
  axes b = 3, i = 40, t = 33, d = 48
  contract acc[b, i, t]: f32 = sum(d) convert.f32(q[b, i, d]) * convert.f32(k[b, t, d])
  store s[b, i, t] over b, i, t = convert.bf16(acc[b, i, t] * 0.2:f32 + convert.f32(x[b, i, t]))
})",
              target_of("sm_89"));
}

TEST(F8Products, OlderGpusMultiplyAndAdd) {
  std::string text = product({64, 64, 64}, "m, k", "k, n", "f8e4m3", "f8e4m3");
  EXPECT_EQ(printed(text, target_of("sm_80")).find("nb_mma"), std::string::npos);
  EXPECT_EQ(printed(text, target_of("compute_80")).find("nb_mma"), std::string::npos);
  expect_text(text, target_of("sm_80"));
}

// Sums over windows are products too.
TEST(F8Products, Convolution) {
  for (int c : {16, 3})
    for (const char* dtype : {"f8e4m3", "f8e5m2"}) {
      std::string text = fmt::format(
          R"(kernel @conv(in x: {1}[2,7,6,{0}], in w: {1}[3,3,{0},16], out y: {1}[2,7,6,16]) {{
  axes n = 2, o0 = 7, o1 = 6, k0 = 3, k1 = 3, c = {0}, f = 16
  for n, o0, o1, f {{
    let s: f32 = sum(k0, k1, c) convert.f32(
      (x[n, o0 + k0 - 1, o1 + k1 - 1, c] if (o0 + k0 >= 1 & o0 + k0 < 8) & (o1 + k1 >= 1 & o1 + k1 < 7)
        else 0.0:{1})) * convert.f32(w[k0, k1, c, f])
    store y[n, o0, o1, f] = convert.{1}(s)
  }}
}})",
          c, dtype);
      EXPECT_NE(printed(text, target_of("sm_89")).find("nb_mma_16832("), std::string::npos) << dtype;
      expect_text(text, target_of("sm_89"), {.tolerance = 0.13});
    }
}

}  // namespace
}  // namespace nabla::kernel_ir
