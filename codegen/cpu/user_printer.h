// Kernels whose code is the user's C++: a file of their own each, so that what the text defines and includes touches
// nothing else.
#pragma once

#include <string>

#include "ir/kernel_ir/kernel.h"

namespace nabla::codegen {

/// The whole file: the kernel `symbol`, which calls the function once per unit of rows, the user's text at its own
/// lines, and a check of the function's type that nothing in the text can change.
std::string print_user_cpp(const kernel_ir::Kernel& kernel, const std::string& symbol);

}  // namespace nabla::codegen
