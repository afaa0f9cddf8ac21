// Kernels whose code is the user's: a file of their own each, so that what the user's text defines and includes touches
// nothing else.
#pragma once

#include <string>

#include "ir/kernel_ir/kernel.h"

namespace nabla::codegen {

/// "void scale(const float* x0, float* y0, int64_t n)": what the user's text must define.
std::string user_prototype(const kernel_ir::Kernel& kernel);
/// The whole file: the kernel `symbol`, which calls the function once per unit of rows, the user's text at its own
/// lines, and a check of the function's type that nothing in the text can change.
std::string print_user_cpp(const kernel_ir::Kernel& kernel, const std::string& symbol);

}  // namespace nabla::codegen
