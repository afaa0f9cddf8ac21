// Running sums, products and extremes, whose rows teams share out.
#pragma once

#include "codegen/cuda/template_grid.h"

namespace nabla::codegen {

/// Of cumsum, cumprod, cummax, cummin and the positions of the latter two: a thread per row where rows are short, a
/// warp per 1 to 32 neighbouring rows where there are many of them, else a block.
TemplateGrids scan_grids(const kernel_ir::Kernel& kernel, const ir::Target& target);

}  // namespace nabla::codegen
