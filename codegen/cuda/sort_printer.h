// Sorts whose rows blocks keep in shared memory, whole or in parts.
#pragma once

#include <optional>

#include "codegen/cuda/printer.h"
#include "codegen/print/expr_printer.h"

namespace nabla::codegen {

/// A call of a template of codegen/cuda/sort.cuh, and its launch; its dynamic shared memory is `room_`.
struct SortGrid {
  std::string call, suffix;
  CudaGrid launch;
};

/// One grid where a block holds what it must keep of a row. Else, per key, the least significant first, one that sorts
/// parts of rows, and one for each doubling of the parts' length. No value where the kernel is no sort.
std::optional<std::vector<SortGrid>> sort_grids(const kernel_ir::Kernel& kernel, const ir::Target& target);

}  // namespace nabla::codegen
