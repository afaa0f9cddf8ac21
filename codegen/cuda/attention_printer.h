// Attention kernels: which tiles their templates (attention.cuh) work on, and the grids that call them.
#pragma once

#include "codegen/cuda/printer.h"
#include "codegen/print/expr_printer.h"

namespace nabla::codegen {

/// Is the kernel's procedure attention, or its way back?
bool is_attention(const kernel_ir::Kernel& kernel);

/// One grid: what follows the kernel's symbol in its name, its launch but for the symbol, and the call.
struct AttentionGrid {
  std::string suffix;
  CudaGrid launch;
  std::string call;
};
/// The way forward is one grid; the way back one over queries and one over keys, as sums over either are the block's
/// own.
std::vector<AttentionGrid> attention_grids(const kernel_ir::Kernel& kernel, const ir::Target& target);

}  // namespace nabla::codegen
