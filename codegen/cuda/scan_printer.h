// Running sums, products and extremes, whose rows teams share out.
#pragma once

#include "codegen/cuda/printer.h"
#include "codegen/print/expr_printer.h"

namespace nabla::codegen {

/// A call of a template of codegen/cuda/scan.cuh, and its launch; its dynamic shared memory is `room_`, where there is
/// any.
struct ScanGrid {
  std::string call;
  CudaGrid launch;
};

/// cumsum, cumprod, cummax, cummin and the positions of the latter two.
bool is_scan(const kernel_ir::Kernel& kernel);
/// A thread per row where rows are short, a warp per 1 to 32 neighbouring rows where there are many of them, else a
/// block.
ScanGrid scan_grid(const kernel_ir::Kernel& kernel, const ir::Target& target);

}  // namespace nabla::codegen
