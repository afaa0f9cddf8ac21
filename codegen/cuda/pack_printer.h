// Pointwise bodies by packs: 16 bytes a thread and access.
#pragma once

#include <map>
#include <string>

#include "codegen/cuda/team_printer.h"
#include "ir/kernel_ir/packs.h"

namespace nabla::codegen {

/// The body for all positions of `axes`, shared out to the threads of the grid, a pack each. The numbers at the
/// kernel's head are printed already.
void print_packs(const kernel_ir::Kernel& kernel, const kernel_ir::Packs& packs, const std::vector<int>& axes,
                 const kernel_ir::Body& body, CppWriter& out, int& next_temp);

/// The body for one pack along axis `lane`, whose first position stands in NAME_first_ as other axes do in their names.
/// `given`: values that the body reads, and the text of their element `l_`.
void print_pack(const kernel_ir::Kernel& kernel, int width, int lane, const kernel_ir::Body& body,
                const std::map<int, std::string>& given, CppWriter& out, int& next_temp);

}  // namespace nabla::codegen
