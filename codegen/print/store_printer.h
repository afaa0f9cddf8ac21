// Prints one store of a kernel.
#pragma once

#include <map>
#include <string>

#include "codegen/print/expr_printer.h"
#include "ir/kernel_ir/kernel.h"

namespace nabla::codegen {

/// One element (lane -1) or one vector of a store; the loops around it are open already, the position of `lane` and
/// the tail are in variables named after the axis and `n`. `streamed`: past the caches.
void print_store(const kernel_ir::Kernel& kernel, const kernel_ir::Store& store, int lane,
                 const std::map<int, ValuePlace>& places, bool streamed, CppWriter& out, int& next_temp);

/// A kernel that updates a few places begins by copying all of its operand. If the memory plan has given both buffers one
/// address, there is nothing to copy. Returns the beginning of the condition around such a copy, which is alone in its
/// loops; empty for other stores.
std::string in_place_condition(const kernel_ir::Kernel& kernel, const kernel_ir::Store& store);

}  // namespace nabla::codegen
