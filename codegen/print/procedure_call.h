// What the printers of all targets print alike around a kernel: its symbol, and the call of a procedure's template.
#pragma once

#include <string>

#include "codegen/print/cpp_writer.h"
#include "ir/kernel_ir/kernel.h"

namespace nabla::codegen {

/// The symbol of a kernel: "nk_" and its name.
std::string kernel_symbol(const kernel_ir::Kernel& kernel);
/// Calls the template of the kernel's procedure for every unit `u_` of `unit` rows; `loop` opens the loop over them. The template's name
/// is `prefix` and the procedure's name.
void print_procedure(const kernel_ir::Kernel& kernel, int64_t unit, const std::string& loop, CppWriter& out,
                     const std::string& prefix = "nb_");

}  // namespace nabla::codegen
