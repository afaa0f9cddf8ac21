// One call to test a generated CUDA kernel: every order, both variants, against the interpreter.
#pragma once

#include <map>
#include <vector>

#include "codegen/cuda/printer.h"
#include "ir/kernel_ir/kernel.h"
#include "tests/cuda/emulator/emulator.h"

namespace nabla::emulator {

struct Expectation {
  /// Of f32 results, relative to the largest element of the buffer, 1 at least.
  double tolerance = 2e-5;
  /// Global bytes that all grids together may read and write; 0: any number.
  int64_t most_traffic = 0;
  /// So many times what their bytes would cost side by side may accesses of warps cost: sectors, clocks of banks; 0: any number.
  double most_sectors = 0, most_bank_clocks = 0;
  /// Values of symbols_of(kernel), where sizes are symbolic.
  std::vector<int64_t> extents = {};
  /// Does the tolerance have to hold too where floats are rounded as GPUs do?
  bool as_gpus_round = false;
  /// Run once more with arrays that begin an element after a multiple of 16 bytes: the same bits.
  bool at_odd_addresses = false;
};

/// What one run leaves behind.
struct KernelRun {
  std::vector<Literal> buffers;
  Report report;  ///< of all grids
};

/// One grid on so many blocks. `places`: where its buffers lie, and the values of sizes where there are such; tensor maps are made of them.
Report launch_grid(Machine& machine, const Object& object, const codegen::CudaGrid& grid, unsigned blocks,
                   const std::vector<void*>& places, const Options& options);

/// Runs the grids of `code` on a copy of `buffers` (which follow Kernel::buffers). `object` was compiled from the
/// prelude and code.text, checked as `checked` says. A checked run also expects every `out` buffer to be written.
/// `in_place` lists results that lie where an operand lies: buffer numbers, {result, operand}. `skewed`: arrays begin an element
/// after a multiple of 16 bytes.
KernelRun run_kernel(const kernel_ir::Kernel& kernel, const codegen::CudaKernel& code, const Object& object,
                     bool checked, const std::vector<Literal>& buffers, const std::vector<int64_t>& extents,
                     const Options& options, const std::map<int, int>& in_place = {}, bool skewed = false);

/// Test failures unless `code` computes what interpret() does: with the same bits in three orders, with early and late
/// copies, plain and checked, without a finding, and with at most the expected costs. `buffers` hold the operands;
/// the kernel has static sizes, or `expectation.extents` gives them.
void expect_right(const kernel_ir::Kernel& kernel, const codegen::CudaKernel& code, const std::vector<Literal>& buffers,
                  const Expectation& expectation = {});

}  // namespace nabla::emulator
