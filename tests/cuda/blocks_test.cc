// Matrices and Fourier transforms by blocks, run thread by thread on the CPU, against the interpreter.
#include <gtest/gtest.h>

#include "codegen/cuda/printer.h"
#include "tests/cuda/emulator/kernel_run.h"
#include "tests/kernel_ir/nine_kernels.h"

namespace nabla::kernel_ir {
namespace {

void expect_by_a_block(const std::string& text, bool matrix) {
  SCOPED_TRACE(text);
  Kernel k = parse_kernel(text, "blocks").value();
  codegen::CudaKernel code = print_for_gpu(k, "nk_blocks", ir::find_target("sm_90a").value()).value();
  ASSERT_NE(code.text.find("nb_block_"), std::string::npos) << code.text;
  std::vector<Literal> buffers = draw_buffers(k);
  int64_t n = k.buffers[0].shape.back().value();
  // Diagonals that make matrices definite, and systems well-behaved.
  for (int64_t i = 0; matrix && i < buffers[0].size(); ++i)
    if (i / n % n == i % n) buffers[0].set(i, 4.0 + static_cast<double>(n));
  emulator::expect_right(k, code, buffers, {.tolerance = 2e-5});
}

TEST(Blocks, Cholesky) {
  for (int64_t n : {17, 33, 70})
    expect_by_a_block(fmt::format(R"(kernel @c(in x: f32[3,{0},{0}], out y: f32[3,{0},{0}], workspace s: u8[2,{1}]) {{
  schedule unit 2 units 2
  procedure cholesky(outer=3, count={0}, inner=1)
}})",
                                  n, n * n * 8),
                      true);
}
TEST(Blocks, CholeskyOfWhatIsNotDefiniteIsNaN) {
  Kernel k = parse_kernel(R"(kernel @c(in x: f64[1,20,20], out y: f64[1,20,20], workspace s: u8[1,3200]) {
  procedure cholesky(outer=1, count=20, inner=1)
})",
                          "blocks")
                 .value();
  std::vector<Literal> buffers = draw_buffers(k);
  buffers[0].set(0, 1), buffers[0].set(20 * 7 + 7, -100);
  codegen::CudaKernel code = print_for_gpu(k, "nk_blocks", ir::find_target("sm_90a").value()).value();
  emulator::expect_right(k, code, buffers);
}

TEST(Blocks, TriangularSolve) {
  for (int way = 0; way < 16; ++way) {
    int64_t n = way % 3 ? 18 : 40, k = way % 5 ? 3 : 40;
    bool left = way & 1;
    expect_by_a_block(
        fmt::format(R"(kernel @t(in x: f32[2,{0},{0}], in b: f32[2,{1}], out y: f32[2,{1}], workspace s: u8[1,{2}]) {{
  schedule unit 2 units 1
  procedure triangular_solve(outer=2, count={0}, inner=1, k={3}, left={4}, lower={5}, transpose={6}, unit={7})
}})",
                    n, left ? fmt::format("{},{}", n, k) : fmt::format("{},{}", k, n), (n * n + n * k) * 8, k, way & 1,
                    way >> 1 & 1, way >> 2 & 1, way >> 3 & 1),
        true);
  }
}

// Lengths with all radices, and such with other prime factors.
TEST(Blocks, Fourier) {
  for (int64_t n : {64, 128, 480, 97, 202})
    for (int inverse : {0, 1})
      expect_by_a_block(
          fmt::format(R"(kernel @f(in a: f32[3,{0}], in b: f32[3,{0}], out re: f32[3,{0}], out im: f32[3,{0}],
          workspace s: u8[2,{1}]) {{
  schedule unit 2 units 2
  procedure fft(outer=3, count={0}, inner=1, inverse={2})
}})",
                      n, 16 * (n == 97 || n == 202 ? 4 * 512 + n : 3 * n), inverse),
          false);
}

}  // namespace
}  // namespace nabla::kernel_ir
