// Generated scatters whose blocks own rows, run thread by thread on the CPU, against the interpreter.
#include <gtest/gtest.h>

#include <random>

#include "tests/cuda/kernel_text.h"

namespace nabla::kernel_ir {
namespace {

// Blocks that own rows: tables of one column and of more than a block's, repeated ids, ids out of range, updates of
// more than one step.
struct Updates {
  int64_t rows, updates, columns;
};
class Scatters : public testing::TestWithParam<Updates> {
 protected:
  // `store` has the combiner.
  Kernel kernel(const char* dtype, const char* store) const {
    auto [rows, updates, columns] = GetParam();
    return parse_kernel(
               fmt::format(R"(kernel @scatter(in ids: i32[{1}], in ct: {3}[{1},{2}], out table: {3}[{0},{2}]) {{
  axes u = {1}, j = {2}
  for u {{
    store table[convert.i64(ids[u]), j] over j {4} ct[u, j] if convert.i64(ids[u]) >= 0 & convert.i64(ids[u]) < {0}
  }}
}})",
                           rows, updates, columns, dtype, store),
               "scatter")
        .value();
  }
  static void expect_rows(const Kernel& k) {
    codegen::CudaKernel code = print_for_gpu(k, "nk_scatter", gpu()).value();
    ASSERT_NE(code.text.find("votes_"), std::string::npos) << code.text;
    std::vector<Literal> buffers = draw_buffers(k);
    std::mt19937 rng(5);
    auto rows = static_cast<unsigned>(k.buffers[2].shape[0].value());
    // A third of all updates meet at one row; some are out of range.
    for (int64_t i = 0; i < buffers[0].size(); ++i)
      buffers[0].set_i(i, rng() % 3 ? static_cast<int64_t>(rng() % (rows + 2)) - 1 : rows / 2);
    emulator::expect_right(k, code, buffers);
  }
};

TEST_P(Scatters, SumsOfF32) { expect_rows(kernel("f32", "sum=")); }
TEST_P(Scatters, SumsOfBF16) { expect_rows(kernel("bf16", "sum=")); }
TEST_P(Scatters, SumsOfF16) { expect_rows(kernel("f16", "sum=")); }
TEST_P(Scatters, LargestOfF32) { expect_rows(kernel("f32", "max=")); }

INSTANTIATE_TEST_SUITE_P(Sizes, Scatters,
                         testing::Values(Updates{11, 64, 33}, Updates{2, 2500, 1}, Updates{301, 130, 3},
                                         Updates{7, 90, 300}),
                         [](const auto& info) {
                           return fmt::format("{}x{}x{}", info.param.rows, info.param.updates, info.param.columns);
                         });

TEST(Scatter, UpdatesOfSeveralAxesAtSeveralLookedUpIndices) {
  expect_text(R"(kernel @pairs(in a: i32[9,8], in b: i32[9,8], in x: f32[9,8,2,5], out y: f32[5,2,6,5]) {
  axes s = 9, t = 8, c = 2, d = 5
  for s, t {
    store y[convert.i64(a[s, t]) + 2, c, convert.i64(b[s, t]) + 2, d] over c, d sum= x[s, t, c, d] * 2.0:f32
      if (convert.i64(a[s, t]) >= -2 & convert.i64(a[s, t]) < 3) &
         (convert.i64(b[s, t]) >= -2 & convert.i64(b[s, t]) < 4) & c + d != 3
  }
})");
}

}  // namespace
}  // namespace nabla::kernel_ir
