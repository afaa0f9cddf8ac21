// Prints one kernel as a C++ function over the prelude.
#pragma once

#include <string>

#include "ir/kernel_ir/kernel.h"
#include "ir/target.h"

namespace nabla::codegen {

/// The function `extern "C" void SYMBOL(void* const* args, const long* extents, long begin, long end)`, which runs
/// units [begin, end) of the kernel. `extents` are the values of kernel_ir::symbols_of(kernel).
std::string print_cpp(const kernel_ir::Kernel& kernel, const std::string& symbol, const ir::Target& target);

}  // namespace nabla::codegen
