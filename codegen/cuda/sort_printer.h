// Sorts whose rows blocks keep in shared memory, whole or in parts.
#pragma once

#include "codegen/cuda/template_grid.h"

namespace nabla::codegen {

/// One grid: a block holds what it must keep of a row.
TemplateGrids block_sort_grids(const kernel_ir::Kernel& kernel, const ir::Target& target);
/// Per key, the least significant first, a grid that sorts parts of rows, and one for each doubling of the parts'
/// length.
TemplateGrids merge_sort_grids(const kernel_ir::Kernel& kernel, const ir::Target& target);

}  // namespace nabla::codegen
