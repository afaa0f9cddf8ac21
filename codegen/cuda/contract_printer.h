// Generated matrix products: tiles in shared memory, a register tile per thread, an epilogue per element.
#pragma once

#include "codegen/cuda/printer.h"
#include "codegen/cuda/team_printer.h"

namespace nabla::codegen {

/// True when the kernel is a contraction that print_product can print: what follows the product uses of it only the
/// element at hand.
bool has_product(const kernel_ir::Kernel& kernel);
/// Prints the body of the grid; the parameters are declared. Requires has_product. Sets threads, blocks and shared
/// bytes of `grid`.
void print_product(const kernel_ir::Kernel& kernel, const ir::Target& target, CppWriter& out, int& next_temp,
                   CudaGrid& grid);

}  // namespace nabla::codegen
