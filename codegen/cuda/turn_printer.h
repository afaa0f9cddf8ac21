// Pointwise bodies that read along another axis than they store.
#pragma once

#include "codegen/cuda/team_printer.h"
#include "ir/kernel_ir/turned.h"

namespace nabla::codegen {

/// The body for all positions of `axes`, by blocks that turn tiles in shared memory: neighbouring threads read neighbours, and store
/// neighbours. The numbers at the kernel's head are printed already.
void print_turned(const kernel_ir::Kernel& kernel, const kernel_ir::Turned& turned, const std::vector<int>& axes,
                  const kernel_ir::Body& body, CppWriter& out, int& next_temp);

}  // namespace nabla::codegen
