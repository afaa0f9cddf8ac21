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

void expect_sorted(const std::string& text, const ir::Target& target, const char* by, int64_t most_traffic = 0) {
  SCOPED_TRACE(text);
  Kernel k = parse_kernel(text, "sort").value();
  codegen::CudaKernel code = print_for_gpu(k, "nk_sort", target).value();
  ASSERT_NE(code.text.find(by), std::string::npos) << code.text;
  std::vector<Literal> buffers = draw_buffers(k);
  for (size_t b = 0; b < buffers.size(); ++b)
    if (k.buffers[b].role == BufferRole::kIn) draw_keys(buffers[b]);
  // A block does one row, or one part of a row, after the other.
  for (codegen::CudaGrid& grid : code.grids) grid.blocks = ir::Dim::min(grid.blocks, 2);
  emulator::expect_right(k, code, buffers, {.most_traffic = most_traffic});
}
void expect_sorted(const std::string& text, const char* target = "sm_90a") {
  expect_sorted(text, ir::find_target(target).value(), "nb_block_");
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

// Parts of 256 elements, merged through global memory.
ir::Target small_gpu() {
  ir::Target target = ir::find_target("sm_90a").value();
  target.cuda.block_shared_bytes = 4112;  // merged tiles take 16 bytes beside 256 elements
  return target;
}
std::string with_scratch(std::string text, int64_t rows, int64_t count, int bytes) {
  std::string scratch = fmt::format(", workspace scratch: u8[{},{}]) {{", 2 * rows, count * bytes);
  return text.replace(text.find(") {"), 3, scratch);
}

TEST(LongSort, RowsAreSortedInPartsThatAreMerged) {
  for (int64_t count : {257, 512, 513, 1000, 2300})
    expect_sorted(with_scratch(argsort("f32", 2, count, 1, count % 2), 2, count, 8), small_gpu(),
                  "nb_merge_argsort<256>");
}
TEST(LongSort, EveryOrderOfKeys) {
  for (const char* dtype : {"bf16", "f64", "i8", "u32", "i64"}) {
    int bytes = dtype[1] == '6' ? 16 : 8;
    expect_sorted(with_scratch(argsort(dtype, 2, 600, 1, bytes == 8), 2, 600, bytes), small_gpu(), "nb_merge_argsort");
  }
}
TEST(LongSort, AlongAMiddleAxis) {
  expect_sorted(with_scratch(argsort("f16", 2, 300, 3, 1), 6, 300, 8), small_gpu(), "nb_merge_argsort");
}
TEST(LongSort, ByTheFirstKeyThenByTheSecond) {
  expect_sorted(with_scratch(R"(kernel @sort(in x: i32[2,1100], in z: f32[2,1100], out y: i64[2,1100]) {
  procedure argsort(outer=2, count=1100, inner=1, descending=1)
})",
                             2, 1100, 8),
                small_gpu(), "nk_sort_merge1_256");
}
// The key once; every element is written and read once per doubling, and the ends of runs are looked for.
TEST(LongSort, RowsOfManyThousandsTakeThreePasses) {
  int64_t n = 9000, searches = 2 * 2 * 14 * 16 * 5;
  expect_sorted(with_scratch(argsort("f32", 1, n, 1, 0), 1, n, 8), ir::find_target("sm_86").value(),
                "nb_merge_argsort<2048>", n * (4 + 8 + 2 * 8 + 8 + 4) + searches);
}
TEST(LongSort, TheFirstOfARowThatSharedMemoryDoesNotHold) {
  for (int64_t k : {150, 700})
    expect_sorted(with_scratch(top_k("f32", 2, 700, 1, k, k == 150), 2, 700, 8), small_gpu(), "nb_merge_top_k");
  expect_sorted(with_scratch(top_k("i64", 1, 300, 2, 140, 1), 2, 300, 16), small_gpu(), "nb_merge_top_k");
}

TEST(Sort, WhatSharedMemoryHolds) {
  auto elements = [](const std::string& text, const char* target) {
    return elements_sorted_by_a_block(*parse_kernel(text, "sort").value().procedure,
                                      ir::find_target(target).value().cuda.block_shared_bytes);
  };
  EXPECT_EQ(elements(argsort("f32", 1, 5, 1, 0), "sm_80"), 64);
  EXPECT_EQ(elements(argsort("f32", 1, 8192, 1, 0), "sm_90"), 8192);
  for (const char* target : {"compute_80", "sm_80", "sm_86", "sm_120"}) EXPECT_EQ(elements(argsort("f32", 1, 8192, 1, 0), target), 0);
  EXPECT_EQ(elements(argsort("f32", 1, 8193, 1, 0), "sm_90a"), 0);
  EXPECT_EQ(elements(top_k("f32", 1, 50257, 1, 50, 1), "sm_90a"), 8192);
  EXPECT_EQ(elements(top_k("f32", 1, 50257, 1, 5000, 1), "sm_90a"), 0);
  EXPECT_EQ(elements(top_k("f32", 1, 8000, 1, 5000, 1), "sm_90a"), 8192);
}

}  // namespace
}  // namespace nabla::kernel_ir
