// Generated matrix products: packed panels, a register tile with explicit accumulators, an epilogue per tile row.
#pragma once

#include "codegen/cpu/expr_printer.h"
#include "ir/target.h"

namespace nabla::codegen {

/// Prints the body of a kernel with a `contract`. Requires kernel_ir::find_contraction(kernel).
void print_contract(const kernel_ir::Kernel& kernel, const ir::Target& target, CppWriter& out, int& next_temp);

/// One element (lane -1) or one vector of a store; the loops around it are open already, the position of `lane` and
/// the tail are in variables named after the axis and `n`. `streamed`: past the caches.
void print_store(const kernel_ir::Kernel& kernel, const kernel_ir::Store& store, int lane,
                 const std::map<int, ValuePlace>& places, bool streamed, CppWriter& out, int& next_temp);

}  // namespace nabla::codegen
