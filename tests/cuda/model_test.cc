// What a kernel is expected to take: which loop of its machine code runs how often, and what follows from that.
#include "codegen/cuda/model.h"

#include <gtest/gtest.h>

#include "codegen/cuda/printer.h"
#include "ir/cost/time.h"
#include "ir/kernel_ir/kernel.h"
#include "passes/lower/schedule_kernels.h"
#include "tests/cuda/compiling.h"
#include "tests/kernel_ir/nine_kernels.h"

namespace nabla::codegen {
namespace {

struct Compiled {
  kernel_ir::Kernel kernel;
  std::vector<CubinKernel> grids;
};

// Scheduled for the target, as it is compiled.
Compiled compiled_kernel(const std::string& text, const std::string& name) {
  ir::Target target = target_named(name);
  Compiled out{kernel_ir::parse_kernel(text, "kernel").value(), {}};
  CudaKernel code = kernel_ir::print_for_gpu(out.kernel, "nk", target).value();
  out.kernel = kernel_ir::scheduled_for_gpu(out.kernel, target).value();
  CudaObject object = compiled(cuda_prelude() + (code.procedures ? cuda_procedures() : "") + "\n" + code.text, name);
  for (const CudaGrid& g : code.grids)
    for (const CudaKernelFacts& facts : object.kernels)
      if (facts.name == g.symbol) out.grids.push_back(facts);
  EXPECT_EQ(out.grids.size(), code.grids.size());
  return out;
}

GridPrediction prediction(const std::string& text, const std::string& target) {
  Compiled c = compiled_kernel(text, target);
  return predict_grid(c.kernel, 0, target_named(target), &c.grids.at(0));
}

std::string chain(int64_t elements, const std::string& dtype, const std::string& what) {
  return fmt::format("kernel @map(in x: {0}[{1}], out y: {0}[{1}]) {{\n  axes i = {1}\n  for i {{\n    store y[i] = {2}\n  }}\n}}",
                     dtype, elements, what);
}

std::string rows(int64_t n, int64_t d) {
  return fmt::format(
      "kernel @rows(in x: f32[{0},{1}], out y: f32[{0},{1}]) {{\n  axes i = {0}, j = {1}, r = {1}\n  for i {{\n"
      "    let top: f32 = max(r) x[i, r]\n    let all: f32 = sum(r) exp(x[i, r] - top)\n"
      "    store y[i, j] over j = exp(x[i, j] - top) / all\n"
      "  }}\n}}",
      n, d);
}

std::string product(int64_t m, int64_t n, int64_t k, const std::string& dtype) {
  return fmt::format(
      "kernel @p(in a: {3}[{0},{2}], in b: {3}[{2},{1}], out y: {3}[{0},{1}]) {{\n  axes m = {0}, n = {1}, k = {2}\n"
      "  contract acc[m, n]: f32 = sum(k) convert.f32(a[m, k]) * convert.f32(b[k, n])\n"
      "  store y[m, n] over m, n = convert.{3}(acc[m, n])\n}}",
      m, n, k, dtype);
}

constexpr const char* kTargets[] = {"sm_80", "sm_90a"};

// Four times as many elements are four times as many instructions, but for what every thread does once.
TEST(Model, InstructionsFollowSizes) {
  const int64_t million = 1 << 20;
  for (const char* target : kTargets)
    for (auto [small, large] : {std::pair{chain(64 * million, "f32", "x[i] * x[i]"), chain(256 * million, "f32", "x[i] * x[i]")},
                                {rows(2048, 4096), rows(8192, 4096)},
                                {rows(8192, 4096), rows(8192, 16384)},
                                {product(4096, 4096, 2048, "bf16"), product(4096, 4096, 8192, "bf16")},
                                {product(4096, 4096, 512, "f32"), product(4096, 4096, 2048, "f32")}}) {
      SCOPED_TRACE(large);
      GridPrediction a = prediction(small, target), b = prediction(large, target);
      EXPECT_TRUE(a.counted);
      EXPECT_GT(b.instructions, 2 * a.instructions) << target;
      EXPECT_LT(b.instructions, 4.1 * a.instructions) << target;
      EXPECT_GT(b.code_us, 2 * a.code_us) << target;
      EXPECT_LT(b.code_us, 4.2 * a.code_us) << target;
    }
}

// An element of a map costs a load, a store and a few more, and 16 bytes are moved at a time.
TEST(Model, CountsInstructionsOfAnElement) {
  const int64_t n = 64 << 20;
  for (const char* target : kTargets) {
    GridPrediction wide = prediction(chain(n, "f32", "x[i] * 2.0:f32"), target);
    double of_pack = wide.instructions * 32 / static_cast<double>(n) * 4;
    EXPECT_GT(of_pack, 8) << target;
    EXPECT_LT(of_pack, 40) << target;
    EXPECT_NEAR(wide.sectors, 2.0 * 4 * static_cast<double>(n) / 32, 1);
    GridPrediction halves = prediction(chain(n, "bf16", "convert.bf16(convert.f32(x[i]) * 2.0:f32)"), target);
    EXPECT_NEAR(halves.sectors, 2.0 * 2 * static_cast<double>(n) / 32, 1);
  }
}

// Three passes over a row, of which each is a loop of its own, and every element is read three times and written once.
TEST(Model, FindsTheLoopsOfRows) {
  const double n = 2048, d = 16384;
  for (const char* target : kTargets) {
    Compiled c = compiled_kernel(rows(2048, 16384), target);
    GridPrediction p = predict_grid(c.kernel, 0, target_named(target), &c.grids.at(0));
    EXPECT_NEAR(p.sectors, 4 * n * d * 4 / 32, 1);
    std::vector<double> runs = runs_of(c.grids[0].code, ir::grid_work(c.kernel, 0), 1);
    double loads = 0, stores = 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      loads += runs[i] * c.grids[0].code.loops[i].own.global_loads.bytes() / 4 * 32;
      stores += runs[i] * c.grids[0].code.loops[i].own.global_stores.bytes() / 4 * 32;
    }
    EXPECT_NEAR(loads, 3 * n * d, 0.1 * 3 * n * d) << target;
    EXPECT_NEAR(stores, n * d, 0.1 * n * d) << target;
  }
}

// A weight's gradient of GPT-2 124M on an H100: slices of its sum, and adding them up, take less than the sum at once.
TEST(Model, SlicesOfALongSumTakeLess) {
  const ir::Target target = target_named("sm_90a");
  for (const char* dtype : {"bf16", "f32"}) {
    const std::string whole = product(768, 768, 8192, dtype);
    kernel_ir::Kernel split = kernel_ir::parse_kernel(whole, "kernel").value();
    passes::split_products(split, target);
    Compiled c = compiled_kernel(kernel_ir::print(split), "sm_90a");
    ASSERT_EQ(c.grids.size(), 2u);
    double us = 0;
    for (size_t g : {0, 1}) us += predict_grid(c.kernel, g, target, &c.grids[g]).code_us;
    EXPECT_LT(us, 0.8 * prediction(whole, "sm_90a").code_us) << dtype;
  }
}

// Every multiply-add of a product is one of an mma.
TEST(Model, MultipliesWhatTheProductHas) {
  Compiled c = compiled_kernel(product(4096, 4096, 2048, "bf16"), "sm_80");
  std::vector<double> runs = runs_of(c.grids[0].code, ir::grid_work(c.kernel, 0), 1);
  double products = 0;
  for (size_t i = 0; i < runs.size(); ++i) products += runs[i] * c.grids[0].code.loops[i].own.hmma * 16 * 8 * 16;
  EXPECT_NEAR(products, 4096.0 * 4096 * 2048, 1e-6 * products);
  GridPrediction p = predict_grid(c.kernel, 0, target_named("sm_80"), &c.grids[0]);
  EXPECT_GE(p.code_us, 2 * products / 312e6);
}

// The loop over k is found in every dtype: no product takes less than its operations at the chip's rate.
TEST(Model, MultipliesInEveryDType) {
  for (const char* target : {"sm_80", "sm_90a", "sm_100", "sm_120"})
    for (DType dtype : {DType::kF64, DType::kF32, DType::kI8, DType::kU16, DType::kI32, DType::kI64}) {
      GridPrediction p = prediction(fmt::format("kernel @p(in a: {0}[2048,1024], in b: {0}[1024,2048], out y: {0}[2048,2048]) {{\n"
                                                "  axes m = 2048, n = 2048, k = 1024\n"
                                                "  contract acc[m, n]: {0} = sum(k) a[m, k] * b[k, n]\n"
                                                "  store y[m, n] over m, n = acc[m, n]\n}}",
                                                name_of(dtype)),
                                    target);
      const double least = 2.0 * 2048 * 2048 * 1024 / ir::product_rate(dtype, target_named(target)).flops_per_us;
      EXPECT_GE(p.code_us, 0.99 * least) << target << " " << name_of(dtype);
      EXPECT_LE(p.code_us, 10 * least) << target << " " << name_of(dtype);
    }
}

// Neighbours that lie apart take a sector each; a transposition turns tiles.
TEST(Model, StridesCostSectors) {
  auto text = [](const char* shape, const char* from) {
    return fmt::format(
        "kernel @t(in x: f32[{}], out y: f32[4096,4096]) {{\n  axes i = 4096, j = 4096\n  for i, j {{\n"
        "    store y[i, j] = x[{}]\n  }}\n}}",
        shape, from);
  };
  const double array = 4096.0 * 4096 * 4 / 32;
  GridPrediction straight = prediction(text("4096,4096", "i, j"), "sm_90a"), across = prediction(text("4096,4096,8", "i, j, 3"), "sm_90a");
  EXPECT_NEAR(straight.sectors, 2 * array, 1);
  EXPECT_NEAR(prediction(text("4096,4096", "j, i"), "sm_90a").sectors, 2 * array, 1);
  EXPECT_NEAR(across.sectors, 9 * array, 1);
  EXPECT_GT(across.sectors_us, 4 * straight.sectors_us);
}

// A block on one multiprocessor waits for memory; a second block beside it, on another, waits with it.
TEST(Model, FewWarpsWait) {
  auto of = [](int64_t n) { return prediction(rows(n, 65536), "sm_90a"); };
  GridPrediction one = of(1), many = of(64), more = of(4096);
  EXPECT_NEAR(many.code_us, one.code_us, 0.05 * one.code_us);
  EXPECT_GT(more.code_us, 5 * one.code_us);
  EXPECT_LT(more.code_us, 4096.0 / 132 * one.code_us);
}

TEST(Model, WithoutMachineCodeSchedulesAloneCount) {
  Compiled c = compiled_kernel(product(4096, 4096, 4096, "bf16"), "sm_90a");
  GridPrediction p = predict_grid(c.kernel, 0, target_named("sm_90a"), nullptr);
  EXPECT_FALSE(p.counted);
  EXPECT_EQ(p.instructions, 0);
  EXPECT_NEAR(p.code_us, 2.0 * 4096 * 4096 * 4096 / (989e6 * 0.79), 1);
}

}  // namespace
}  // namespace nabla::codegen
