// Running sums and extremes by teams, run thread by thread on the CPU, against the interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "codegen/cuda/printer.h"
#include "tests/cuda/emulator/kernel_run.h"
#include "tests/kernel_ir/nine_kernels.h"
#include "tests/nightly.h"

namespace nabla::kernel_ir {
namespace {

struct Rows {
  int64_t outer, count, inner;
};

std::string scan(const std::string& name, const std::string& dtype, Rows r, bool reverse, bool exclusive) {
  bool places = name.starts_with("cumarg");
  return fmt::format(
      "kernel @scan(in x: {0}[{1},{2},{3}], out y: {4}[{1},{2},{3}]) {{\n"
      "  procedure {5}(outer={1}, count={2}, inner={3}, reverse={6}{7})\n}}",
      dtype, r.outer, r.count, r.inner, places ? "i32" : dtype, name, int{reverse},
      places ? "" : fmt::format(", exclusive={}", int{exclusive}));
}

// Every element is read once and written once, and two blocks at most do all of the work.
void expect_scan(const std::string& name, const std::string& dtype, Rows r, const std::string& team,
                 bool reverse = false, bool exclusive = false, bool special = false) {
  std::string text = scan(name, dtype, r, reverse, exclusive);
  SCOPED_TRACE(text);
  Kernel k = parse_kernel(text, "scan").value();
  codegen::CudaKernel code = print_for_gpu(k, "nk_scan", ir::find_target("sm_90a").value()).value();
  EXPECT_NE(code.text.find(fmt::format("nb_team_{}<{}", name, team)), std::string::npos) << code.text;
  std::vector<Literal> buffers = draw_buffers(k);
  std::mt19937 rng(5);
  const double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0};
  bool product = name == "cumprod", places = name.starts_with("cumarg");
  for (int64_t i = 0; i < buffers[0].size(); ++i) {
    if (!is_float(buffers[0].dtype()))
      buffers[0].set_i(i, static_cast<int64_t>(rng() % 7) - (is_unsigned(buffers[0].dtype()) ? 0 : 3));
    else if (special && rng() % 200 == 0)
      buffers[0].set(i, odd[rng() % 5]);
    else
      buffers[0].set(i,
                     product ? 1 + (static_cast<int>(rng() % 5) - 2) / 64.0 : (static_cast<int>(rng() % 17) - 8) / 8.0);
  }
  code.grids[0].blocks = ir::Dim::min(code.grids[0].blocks, 2);
  int64_t bytes = buffers[0].size() * (bytes_of(buffers[0].dtype()) + bytes_of(buffers[1].dtype()));
  emulator::expect_right(k, code, buffers, {.tolerance = places ? 0 : 2e-5, .most_traffic = bytes});
}

TEST(Scan, ShortRowsAreAThreadsEach) {
  expect_scan("cumsum", "f32", {3, 16, 7}, "1,");
  expect_scan("cumsum", "i64", {700, 5, 1}, "1,", true, true);
  expect_scan("cumargmax", "f32", {300, 7, 1}, "1,", false, false, true);
}

TEST(Scan, RowsOfAFewPiecesAreAWarpsEach) {
  for (int64_t count : {17, 32, 33, 128, 129, 512})
    for (bool reverse : {false, true}) expect_scan("cumsum", "f32", {3, count, 1}, "32, 1", reverse, reverse);
}

TEST(Scan, LongRowsAreABlocksEach) {
  for (int64_t count : {513, 1024, 1025, 5000})
    for (bool reverse : {false, true}) expect_scan("cumsum", "f32", {3, count, 1}, "256, 1", reverse, !reverse);
}

TEST(Scan, FewVeryLongRowsAreALargeBlocksEach) {
  expect_scan("cumsum", "f32", {2, 9000, 1}, "1024, 1");
  expect_scan("cummax", "i32", {1, 8193, 1}, "1024, 1", true, true);
}

TEST(Scan, NeighbouringColumnsGoTogether) {
  for (int64_t inner : {2, 3, 8, 9, 20}) {
    expect_scan("cumsum", "f32", {2, 50, inner}, "32, ", inner % 2);
    expect_scan("cumsum", "f32", {2, 300, inner},
                inner == 2   ? "256, 2"
                : inner == 3 ? "256, 4"
                             : "256, 8",
                false, true);
  }
  expect_scan("cumsum", "f64", {2, 300, 9}, "256, 4", true, true);
  expect_scan("cumsum", "i8", {2, 300, 70}, "1024, 32", true);
}

TEST(Scan, ManyColumnsAreAThreadsEach) {
  expect_scan("cumsum", "f32", {700, 20, 65}, "32, 32");
  expect_scan("cumprod", "f32", {1400, 17, 33}, "32, 32", true, true);
}

TEST(Scan, EveryProcedureInEveryDtype) {
  for (const char* name : {"cumsum", "cumprod", "cummax", "cummin", "cumargmax", "cumargmin"})
    for (const char* dtype : some_of<const char*>({"bf16", "u64", "f32", "f64", "i8"}, name[3] == 's' ? 5 : 2))
      expect_scan(name, dtype, {2, 600, 1}, "256, 1", dtype[0] == 'f', dtype[1] == '3');
}

TEST(Scan, NaNAndInfinitiesStayWhatTheyAre) {
  for (const char* name : {"cumsum", "cumprod", "cummax", "cummin", "cumargmax", "cumargmin"})
    for (bool reverse : {false, true}) expect_scan(name, "f32", {3, 700, 1}, "256, 1", reverse, false, true);
}

}  // namespace
}  // namespace nabla::kernel_ir
