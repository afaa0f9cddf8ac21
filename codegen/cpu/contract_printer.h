// Generated matrix products: packed panels, a register tile with explicit accumulators, an epilogue per tile row.
#pragma once

#include "codegen/print/cpp_writer.h"
#include "ir/kernel_ir/kernel.h"
#include "ir/target.h"

namespace nabla::codegen {

/// Prints the body of a kernel with a `contract`. Requires kernel_ir::find_contraction(kernel).
void print_contract(const kernel_ir::Kernel& kernel, const ir::Target& target, CppWriter& out, int& next_temp);

}  // namespace nabla::codegen
