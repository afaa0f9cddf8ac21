// Attention kernels: calls of their templates (attention.cuh).
#pragma once

#include "codegen/cuda/template_grid.h"

namespace nabla::codegen {

/// The way forward is one grid; the way back one over queries and one over keys, as sums over either are the block's
/// own.
TemplateCalls attention_calls(const kernel_ir::Kernel& kernel);

}  // namespace nabla::codegen
