// Generated products by multiply-adds, run thread by thread on the CPU, against the interpreter.
#include <gtest/gtest.h>

#include "tests/cuda/kernel_text.h"
#include "tests/nightly.h"

namespace nabla::kernel_ir {
namespace {

// A GPU whose multiprocessors few tiles keep at work takes the largest ones.
ir::Target few_multiprocessors(const char* name = "sm_90a") {
  ir::Target target = ir::find_target(name).value();
  target.cuda.multiprocessors = 1;
  return target;
}

std::string product(int64_t m, int64_t n, int64_t k, const std::string& a, const std::string& b, const std::string& dtype) {
  return fmt::format(R"(kernel @product(in a: {0}[{1}], in b: {0}[{2}], in c: {0}[{4}], out y: {0}[{3},{4}]) {{
  axes m = {3}, n = {4}, k = {5}
  contract acc[m, n]: {0} = sum(k) a[{6}] * b[{7}]
  store y[m, n] over m, n = maximum(acc[m, n] + c[n], {8}:{0})
}})",
                     dtype, a == "m, k" ? fmt::format("{},{}", m, k) : fmt::format("{},{}", k, m),
                     b == "k, n" ? fmt::format("{},{}", k, n) : fmt::format("{},{}", n, k), m, n, k, a, b,
                     dtype[0] == 'f' ? "0.0" : "0");
}
std::string text_of(const std::string& kernel, const ir::Target& target) {
  return print_for_gpu(parse_kernel(kernel, "kernel").value(), "nk_kernel", target).value().text;
}

// A product of square matrices, with f32 sums of narrower factors.
std::string converted_product(int64_t side, const std::string& a, const std::string& b, const std::string& dtype) {
  const bool plain = dtype == "f32" || dtype == "f64";
  auto load = [&](const std::string& at) { return plain ? at : "convert.f32(" + at + ")"; };
  return fmt::format(R"(kernel @product(in a: {0}[{1},{1}], in b: {0}[{1},{1}], out y: {2}[{1},{1}]) {{
  axes m = {1}, n = {1}, k = {1}
  contract acc[m, n]: {2} = sum(k) {3} * {4}
  store y[m, n] over m, n = acc[m, n]
}})",
                     dtype, side, plain ? dtype : "f32", load("a[" + a + "]"), load("b[" + b + "]"));
}
std::string argsort(int64_t count) {
  return fmt::format(R"(kernel @sort(in x: f32[3,{0}], out y: i32[3,{0}]) {{
  procedure argsort(outer=3, count={0}, inner=1, descending=0)
}})",
                     count);
}

struct Shape {
  int64_t m, n, k;
};
class PlainProducts : public testing::TestWithParam<Shape> {};

// Either factor with k or its own axis fastest, sizes that packs and tiles divide and sizes that they do not.
TEST_P(PlainProducts, OfEveryOrder) {
  auto [m, n, k] = GetParam();
  for (const char* a : {"m, k", "k, m"})
    for (const char* b : {"k, n", "n, k"}) {
      SCOPED_TRACE(fmt::format("a[{}] b[{}]", a, b));
      expect_text(product(m, n, k, a, b, "f32"));
    }
}
INSTANTIATE_TEST_SUITE_P(Sizes, PlainProducts,
                         testing::ValuesIn(some_of<Shape>({{1, 5, 3}, {16, 16, 16}, {31, 17, 33}, {72, 136, 20}, {40, 24, 64},
                                                           {65, 130, 100}},
                                                          4)),
                         [](const auto& info) { return fmt::format("{}x{}x{}", info.param.m, info.param.n, info.param.k); });

// 64 results of each thread, packs of 16 bytes in and out of shared memory and into the result.
TEST(LargestTiles, OfEveryOrder) {
  for (const char* a : {"m, k", "k, m"})
    for (const char* b : {"k, n", "n, k"})
      for (auto [m, n, k] : some_of<Shape>({{132, 260, 32}, {129, 131, 35}}, a[0] == b[0] ? 2 : 1)) {
        SCOPED_TRACE(fmt::format("{}x{}x{} a[{}] b[{}]", m, n, k, a, b));
        const std::string text = product(m, n, k, a, b, "f32"), code = text_of(text, few_multiprocessors());
        EXPECT_NE(code.find("acc_[8][8]"), std::string::npos) << code;
        EXPECT_NE(code.find("__launch_bounds__(256, 2)"), std::string::npos) << code;
        EXPECT_EQ(code.find("nb_cp_async_if<16>") != std::string::npos, k == 32 && (a[0] == 'k' || b[0] == 'k')) << code;
        EXPECT_EQ(code.find("nb_store_pack(y") != std::string::npos, k == 32) << code;
        expect_text(text, few_multiprocessors(), {.as_gpus_round = true});
      }
}

// A GPU whose blocks have less shared memory copies fewer tiles ahead.
TEST(LargestTiles, FitTheSharedMemory) {
  const std::string text = product(132, 132, 40, "m, k", "k, n", "f32");
  EXPECT_NE(text_of(text, few_multiprocessors("sm_90a")).find("nb_cp_wait<1>"), std::string::npos);
  EXPECT_NE(text_of(text, few_multiprocessors("sm_86")).find("nb_cp_wait<0>"), std::string::npos);
  expect_text(text, few_multiprocessors("sm_86"));
}

// Bytes that a block may have on a chip, by the table of compute capabilities in the CUDA C++ Programming Guide.
int shared_of(int capability) {
  const bool small = capability == 86 || capability == 89 || capability >= 120;
  return (small ? 99 : capability < 90 ? 163 : 227) << 10;
}
bool runs_on(const ir::CudaFacts& target, int capability) {
  if (target.specific) return capability == target.compute;
  return capability >= target.compute && (target.ptx || capability / 10 == target.compute / 10);
}

// A program for sm_80 runs on an RTX 30, and PTX on every later GPU: the chip with the least shared memory counts.
TEST(SharedMemory, OfEveryScheduleIsThereOnEveryGpuThatTheCodeRunsOn) {
  std::vector<std::string> kernels{argsort(4096), argsort(8192), argsort(100000)};
  for (const char* dtype : {"f32", "f64", "bf16", "f16", "f8e4m3", "f8e5m2"})
    for (int64_t side : {40, 132, 512, 8192})
      for (const char* a : {"m, k", "k, m"})
        for (const char* b : {"k, n", "n, k"}) kernels.push_back(converted_product(side, a, b, dtype));
  for (const std::string& target_name : ir::target_names()) {
    const ir::Target target = ir::find_target(target_name).value();
    if (!target.is_cuda()) continue;
    for (const std::string& text : kernels) {
      Kernel k = scheduled_for_gpu(parse_kernel(text, "kernel").value(), target).value();
      for (const Grid& g : std::get<CudaSchedule>(*k.schedule).grids)
        for (int capability : {80, 86, 87, 89, 90, 100, 103, 120, 121})
          if (runs_on(target.cuda, capability)) {
            EXPECT_LE(g.shared_bytes, shared_of(capability)) << target_name << " on " << capability << ": " << text;
          }
    }
  }
}

// Copied where an element has 4 or 8 bytes, through registers otherwise.
TEST(PlainProductsOf, OtherDtypes) {
  for (auto [dtype, copied] : {std::pair{"f64", true}, {"i32", true}, {"i64", true}, {"i8", false}, {"u8", false}, {"i16", false}})
    for (auto [m, n, k] : some_of<Shape>({{33, 65, 17}, {40, 72, 36}, {8, 3, 50}}, dtype[0] == 'i' ? 2 : 1)) {
      SCOPED_TRACE(fmt::format("{} {}x{}x{}", dtype, m, n, k));
      const std::string text = product(m, n, k, "m, k", "k, n", dtype);
      EXPECT_EQ(text_of(text, gpu()).find("nb_cp_async_if") != std::string::npos, copied);
      expect_text(text, few_multiprocessors());
    }
}

// One factor is converted, the other is copied, or neither is; results narrower than the sums.
TEST(PlainProductsOf, ConvertedFactors) {
  for (auto [a, b] : {std::pair{"bf16", "f32"}, {"f32", "f16"}, {"i8", "bf16"}})
    for (auto [m, n, k] : some_of<Shape>({{40, 72, 36}, {33, 15, 17}, {132, 136, 50}}, 2)) {
      SCOPED_TRACE(fmt::format("{} {} {}x{}x{}", a, b, m, n, k));
      auto factor = [](const std::string& dtype, const char* load) {
        return dtype == "f32" ? std::string(load) : fmt::format("convert.f32({})", load);
      };
      expect_text(fmt::format(R"(kernel @product(in a: {0}[{2},{4}], in b: {1}[{3},{4}], in r: f16[{2},{3}], out y: bf16[{2},{3}]) {{
  axes m = {2}, n = {3}, k = {4}
  contract acc[m, n]: f32 = sum(k) {5} * {6}
  store y[m, n] over m, n = convert.bf16(acc[m, n] * 0.125:f32 + convert.f32(r[m, n]))
}})",
                              a, b, m, n, k, factor(a, "a[m, k]"), factor(b, "b[n, k]")),
                  few_multiprocessors());
    }
}

// Batches, several results, and a factor that is missing in part.
TEST(PlainProductsOf, BatchesAndGuardedFactors) {
  expect_text(R"(kernel @product(in a: f32[3,40,24], in b: f32[3,24,36], out y: f32[3,40,36], out z: bf16[3,40,36]) {
  axes h = 3, m = 40, n = 36, k = 24
  contract acc[h, m, n]: f32 = sum(k) (a[h, m, k] if k <= m else 0.0:f32) * b[h, k, n]
  let t[h, m, n]: f32 = acc[h, m, n] * 0.5:f32
  store y[h, m, n] over h, m, n = t[h, m, n]
  store z[h, m, n] over h, m, n = convert.bf16(tanh(t[h, m, n]))
})");
}

// Sizes of the run on every axis: distances that are known and such that are not.
TEST(PlainProductsOf, SizesOfTheRun) {
  for (const char* axis : {"m", "n", "k"}) {
    auto symbol = std::make_shared<ir::Symbol>(ir::Symbol{"s", 1, 300, 1});
    ReadSize size = [&](std::string_view) -> Result<ir::Dim> { return ir::Dim::symbol(symbol); };
    auto extent = [&](const char* of, int64_t n) { return std::string(of) == axis ? std::string("dim(s)") : std::to_string(n); };
    const std::string m = extent("m", 48), n = extent("n", 68), k = extent("k", 40);
    const std::string text = fmt::format(
        R"(kernel @product(in a: f32[2,{0},{2}], in b: f32[{2},{1}], in r: f32[2,{0},{1}], out y: f32[2,{0},{1}]) {{
  axes h = 2, m = {0}, n = {1}, k = {2}
  contract acc[h, m, n]: f32 = sum(k) a[h, m, k] * b[k, n]
  store y[h, m, n] over h, m, n = acc[h, m, n] + r[h, m, n]
}})",
        m, n, k);
    Kernel kernel = parse_kernel(text, "kernel", size).value();
    for (int64_t at : {1, 52, 131}) {
      SCOPED_TRACE(fmt::format("{} = {}", axis, at));
      auto code = print_for_gpu(kernel, "nk_product", few_multiprocessors());
      ASSERT_TRUE(code.ok()) << to_string(code.errors());
      Kernel sized = with_sizes(kernel, [&](const ir::Dim& d) { return ir::Dim(d.eval([&](const ir::Symbol&) { return at; })); });
      emulator::expect_right(kernel, *code, draw_buffers(sized), {.extents = {at}});
    }
  }
}

}  // namespace
}  // namespace nabla::kernel_ir
