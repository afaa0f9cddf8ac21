#include "cli/driver/bill_code.h"

#include <algorithm>

#include "codegen/cuda/model.h"

namespace nabla::driver {
namespace {

// A multiprocessor holds no more warps than the grid has.
ir::GridCode grid_code(const codegen::CodeGrid& g) {
  constexpr int64_t kMostBlocks = 1 << 20;  // keeps the product within 64 bits
  const int64_t blocks = g.blocks.bounds().max, block_warps = (g.threads + 31) / 32;
  return {.symbol = g.symbol,
          .blocks = blocks,
          .threads = g.threads,
          .shared_bytes = g.shared_bytes,
          .warnings = g.warnings,
          .registers = g.registers,
          .local_bytes = g.local_bytes,
          .static_shared_bytes = g.static_shared_bytes,
          .resident_warps = std::min<int64_t>(g.resident_warps, std::min(blocks, kMostBlocks) * block_warps)};
}

}  // namespace

void predict_by_schedules(const ir::Module& planned, const ir::Target& target, ir::Bill& bill) {
  if (!target.is_cuda()) return;
  for (size_t k = 0; k < bill.kernels.size(); ++k) {
    const kernel_ir::Kernel& kernel = *planned.kernels[k];
    for (size_t grid = 0; grid < cuda_schedule_of(kernel).grids.size(); ++grid)
      bill.kernels[k].expected.push_back(codegen::predict_grid(kernel, grid, target, nullptr));
  }
  ir::predict(bill);
}

void predict_by_code(const codegen::TargetCode& code, const ir::Target& target, ir::Bill& bill) {
  if (!target.is_cuda()) return;
  for (size_t k = 0; k < code.kernels.size(); ++k) {
    ir::KernelBill& kernel = bill.kernels[k];
    kernel.grids.clear(), kernel.expected.clear();
    for (const codegen::CodeGrid& g : code.kernels[k].grids) {
      kernel.grids.push_back(grid_code(g));
      kernel.expected.push_back(g.predicted);
    }
  }
  ir::predict(bill);
}

}  // namespace nabla::driver
