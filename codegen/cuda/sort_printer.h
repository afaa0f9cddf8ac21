// Sorts whose rows a block keeps in shared memory.
#pragma once

#include "codegen/cpu/expr_printer.h"
#include "codegen/cuda/printer.h"

namespace nabla::codegen {

/// A call of a template of codegen/cuda/sort.cuh, and its launch; its dynamic shared memory is `room_`.
struct SortGrid {
  std::string call;
  CudaGrid launch;
};

/// Requires kernel_ir::elements_sorted_by_a_block > 0 for the kernel's procedure on the target.
SortGrid sort_grid(const kernel_ir::Kernel& kernel, const ir::Target& target);

}  // namespace nabla::codegen
