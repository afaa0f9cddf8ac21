// What accesses of warps cost: the counter, on kernels whose costs are known, and generated kernels, whose memory must be
// accessed side by side.
#include <fmt/format.h>

#include "tests/cuda/kernel_text.h"

namespace nabla::kernel_ir {
namespace {

emulator::Traffic costs_of(const std::string& body, unsigned threads) {
  auto object = emulator::Object::compile("extern \"C\" __global__ void f(const float* x, float* y) {" + body + "}", true);
  EXPECT_TRUE(object.ok()) << to_string(object.errors());
  if (!object.ok()) return {};
  emulator::Machine machine(true);
  const std::vector<float> zeros(4096);
  void *x = machine.allocate(16384, "x"), *y = machine.allocate(16384, "y");
  machine.write(x, zeros.data(), 16384);
  emulator::Options options;
  options.count_warps = true;
  emulator::Report report = machine.launch(**object, "f", {1, threads, 0}, {&x, &y}, options);
  EXPECT_TRUE(report.clean()) << report.str();
  return report.traffic;
}

TEST(WarpCosts, ALaneApartTakesASectorOfItsOwn) {
  emulator::Traffic t = costs_of("y[threadIdx.x] = x[threadIdx.x * 8];", 64);
  EXPECT_EQ(t.sectors, 2 * (32 + 4));
  EXPECT_EQ(t.least_sectors, 2 * (4 + 4));
  t = costs_of("y[threadIdx.x] = x[threadIdx.x + 1];", 32);
  EXPECT_EQ(t.sectors, 5 + 4);  // a row that begins within a sector
  t = costs_of("for (int i = 0; i < 3; ++i) y[i * 32 + threadIdx.x] = x[7];", 32);
  EXPECT_EQ(t.sectors, 3 * (1 + 4));  // all lanes read one word
}

TEST(WarpCosts, LanesInOneBankWaitForEachOther) {
  const char* turned = "__shared__ float t[32 * {0}]; t[threadIdx.x * {0}] = x[threadIdx.x]; y[threadIdx.x] = t[threadIdx.x * {0}];";
  emulator::Traffic t = costs_of(fmt::format(fmt::runtime(turned), 32), 32);
  EXPECT_EQ(t.bank_clocks, 2 * 32);
  EXPECT_EQ(t.least_bank_clocks, 2);
  t = costs_of(fmt::format(fmt::runtime(turned), 33), 32);
  EXPECT_EQ(t.bank_clocks, 2);
  t = costs_of("__shared__ float4 t[32]; t[threadIdx.x] = float4{x[0], 1, 2, 3}; y[threadIdx.x] = t[threadIdx.x].y;", 32);
  EXPECT_EQ(t.bank_clocks, 4 + 4);  // 16 bytes by eight lanes a clock; words that are 16 bytes apart
  EXPECT_EQ(t.least_bank_clocks, 4 + 1);
}

// Sizes whose rows are whole sectors.
constexpr emulator::Expectation kSideBySide{.tolerance = 1e-2, .most_sectors = 2, .most_bank_clocks = 1.5};

TEST(WarpCosts, Rows) {
  for (int64_t columns : {16, 256, 2048})
    expect_text(fmt::format(R"(kernel @softmax(in x: f32[8,{0}], out y: f32[8,{0}]) {{
  axes i = 8, j = {0}
  for i {{
    let m: f32 = max(j) x[i, j]
    let e[j]: f32 = exp(x[i, j] - m)
    let s: f32 = sum(j) e[j]
    store y[i, j] over j = e[j] / s
  }}
}})", columns), gpu(), kSideBySide);
}

TEST(WarpCosts, Columns) {
  expect_text(R"(kernel @columns(in x: f32[48,2048], out y: f32[2048]) {
  axes i = 48, j = 2048
  for j {
    let s: f32 = sum(i) x[i, j]
    store y[j] = s
  }
})", gpu(), kSideBySide);
}

TEST(WarpCosts, Packs) {
  expect_text(R"(kernel @gelu(in x: bf16[64,96], out y: bf16[64,96]) {
  axes i = 64, j = 96
  for i, j {
    store y[i, j] = convert.bf16(tanh(convert.f32(x[i, j])) * 0.5:f32)
  }
})", gpu(), kSideBySide);
}

// Threads that multiply and add read packs of both tiles, and those of one warp no word twice; elements that lie along k go to
// banks of their own. Tiles of 64 and of 128 results a side.
TEST(WarpCosts, ProductsByMultiplyAdds) {
  for (bool a_by_rows : {true, false})
    for (bool b_by_rows : {true, false})
      for (int multiprocessors : {132, 1}) {
        SCOPED_TRACE(fmt::format("{} {} {}", a_by_rows, b_by_rows, multiprocessors));
        ir::Target target = gpu();
        target.cuda.multiprocessors = multiprocessors;
        expect_text(fmt::format(R"(kernel @product(in a: f32[{}], in b: f32[{}], out y: f32[128,128]) {{
  axes m = 128, n = 128, k = 64
  contract acc[m, n]: f32 = sum(k) a[{}] * b[{}]
  store y[m, n] over m, n = acc[m, n]
}})", a_by_rows ? "128,64" : "64,128", b_by_rows ? "64,128" : "128,64", a_by_rows ? "m, k" : "k, m", b_by_rows ? "k, n" : "n, k"),
                    target, kSideBySide);
      }
}

TEST(WarpCosts, ProductsOnTensorCores) {
  for (const char* b : {"k, n", "n, k"}) {
    const bool columns = std::string(b) == "n, k";
    expect_text(fmt::format(R"(kernel @product(in a: bf16[128,64], in b: bf16[{}], out y: bf16[128,128]) {{
  axes m = 128, n = 128, k = 64
  contract acc[m, n]: f32 = sum(k) convert.f32(a[m, k]) * convert.f32(b[{}])
  store y[m, n] over m, n = convert.bf16(acc[m, n])
}})", columns ? "128,64" : "64,128", b), ir::find_target("sm_80").value(), kSideBySide);
  }
}

}  // namespace
}  // namespace nabla::kernel_ir
