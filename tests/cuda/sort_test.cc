// Sorts by blocks, run thread by thread on the CPU, against the interpreter: every row whole, ties in their order.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "codegen/cuda/printer.h"
#include "tests/cuda/emulator/kernel_run.h"
#include "tests/kernel_ir/nine_kernels.h"

namespace nabla::kernel_ir {
namespace {

// Few values, so that many tie, with NaN, both zeros and infinities among them.
void draw_keys(Literal& x) {
  std::mt19937 rng(7);
  const double special[] = {NAN, -0.0, 0.0, INFINITY, -INFINITY};
  for (int64_t i = 0; i < x.size(); ++i) {
    if (!is_float(x.dtype()))
      x.set_i(i, static_cast<int64_t>(rng() % 9) - (is_unsigned(x.dtype()) || x.dtype() == DType::kBool ? 0 : 4));
    else
      x.set(i, rng() % 4 ? static_cast<int>(rng() % 41) - 20 : special[rng() % 5]);
  }
}

void expect_sorted(const std::string& text, const char* target = "sm_90a") {
  Kernel k = parse_kernel(text, "sort").value();
  codegen::CudaKernel code = codegen::print_cuda(k, "nk_sort", ir::find_target(target).value()).value();
  ASSERT_NE(code.text.find("nb_block_"), std::string::npos) << code.text;
  std::vector<Literal> buffers = draw_buffers(k);
  for (size_t b = 0; b < buffers.size(); ++b)
    if (k.buffers[b].role == BufferRole::kIn) draw_keys(buffers[b]);
  code.grids[0].blocks = ir::Dim::min(code.grids[0].blocks, 2);  // a block sorts one row after the other
  emulator::expect_right(k, code, buffers);
}

std::string argsort(const char* dtype, int64_t outer, int64_t count, int64_t inner, int descending) {
  return fmt::format(R"(kernel @sort(in x: {0}[{1},{2},{3}], out y: i32[{1},{2},{3}]) {{
  procedure argsort(outer={1}, count={2}, inner={3}, descending={4})
}})",
                     dtype, outer, count, inner, descending);
}

TEST(Sort, RowsOfFewAndOfManyElements) {
  for (int64_t count : {1, 2, 31, 64, 65, 500}) expect_sorted(argsort("f32", 3, count, 1, count % 2));
}
TEST(Sort, RowsOfThousands) { expect_sorted(argsort("f32", 1, 3000, 1, 0)); }
TEST(Sort, EveryOrderOfKeys) {
  for (const char* dtype : {"bf16", "f64", "i8", "u32", "i64", "bool"})
    for (int descending : {0, 1}) expect_sorted(argsort(dtype, 2, 70, 1, descending));
}
TEST(Sort, AlongAMiddleAxis) { expect_sorted(argsort("f16", 2, 130, 3, 1)); }

TEST(Sort, ByTheFirstKeyThenByTheSecond) {
  expect_sorted(R"(kernel @sort(in x: i32[5,150], in z: f32[5,150], out y: i64[5,150]) {
  procedure argsort(outer=5, count=150, inner=1, descending=1)
})");
}

std::string top_k(const char* dtype, int64_t outer, int64_t count, int64_t inner, int64_t k, int largest) {
  return fmt::format(R"(kernel @top(in x: {0}[{1},{2},{3}], out v: {0}[{1},{4},{3}], out y: i32[{1},{4},{3}]) {{
  procedure top_k(outer={1}, count={2}, inner={3}, k={4}, largest={5})
}})",
                     dtype, outer, count, inner, k, largest);
}

TEST(Sort, TheFirstOfARow) {
  expect_sorted(top_k("f32", 3, 100, 1, 7, 1));
  expect_sorted(top_k("i32", 3, 100, 2, 100, 0));
  expect_sorted(top_k("bf16", 5, 9, 1, 1, 1));
}
// Longer than shared memory: part after part.
TEST(Sort, TheFirstOfARowThatSharedMemoryDoesNotHold) { expect_sorted(top_k("f32", 1, 10000, 1, 5, 1), "sm_86"); }

TEST(Sort, WhatSharedMemoryHolds) {
  auto elements = [](const std::string& text, const char* target) {
    return elements_sorted_by_a_block(*parse_kernel(text, "sort").value().procedure,
                                      ir::find_target(target).value().cuda.block_shared_bytes);
  };
  EXPECT_EQ(elements(argsort("f32", 1, 5, 1, 0), "sm_80"), 64);
  EXPECT_EQ(elements(argsort("f32", 1, 8192, 1, 0), "sm_80"), 8192);
  EXPECT_EQ(elements(argsort("f32", 1, 8192, 1, 0), "sm_86"), 0);
  EXPECT_EQ(elements(argsort("f32", 1, 8193, 1, 0), "sm_90a"), 0);
  EXPECT_EQ(elements(top_k("f32", 1, 50257, 1, 50, 1), "sm_90a"), 8192);
  EXPECT_EQ(elements(top_k("f32", 1, 50257, 1, 5000, 1), "sm_90a"), 0);
  EXPECT_EQ(elements(top_k("f32", 1, 8000, 1, 5000, 1), "sm_90a"), 8192);
}

}  // namespace
}  // namespace nabla::kernel_ir
