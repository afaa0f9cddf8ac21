// Prints one kernel as a C++ function over the prelude.
#pragma once

#include <string>

#include "codegen/cpu/expr_printer.h"
#include "ir/kernel_ir/kernel.h"
#include "ir/target.h"

namespace nabla::codegen {

/// The function `extern "C" void SYMBOL(void* const* args, const long* extents, long begin, long end)`, which runs
/// units [begin, end) of the kernel. `extents` are the values of kernel_ir::symbols_of(kernel).
std::string print_cpp(const kernel_ir::Kernel& kernel, const std::string& symbol, const ir::Target& target);

// ---- What the printers of all targets share
/// The function of a kernel: "nk_" and its name.
std::string kernel_symbol(const kernel_ir::Kernel& kernel);
/// Calls the template of the kernel's procedure for every unit `u_`; `loop` opens the loop over them.
/// The template's name is that of the procedure after `prefix`.
void print_procedure(const kernel_ir::Kernel& kernel, const std::string& loop, CppWriter& out,
                     const std::string& prefix = "nb_");
/// An update of a few places begins by copying all of its operand. In place there is nothing to copy: the memory plan
/// has given both buffers one address. The beginning of the condition around such a store, which stands alone in its
/// loops; empty for others.
std::string in_place_condition(const kernel_ir::Kernel& kernel, const kernel_ir::Store& store);

}  // namespace nabla::codegen
