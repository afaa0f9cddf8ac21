// Attention kernels: which tiles their templates (attention.cuh) work on, and the grids that call them.
#pragma once

#include "codegen/cuda/template_grid.h"

namespace nabla::codegen {

/// The way forward is one grid; the way back one over queries and one over keys, as sums over either are the block's
/// own.
TemplateGrids attention_grids(const kernel_ir::Kernel& kernel, const ir::Target& target);

}  // namespace nabla::codegen
