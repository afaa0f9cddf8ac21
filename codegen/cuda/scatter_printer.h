// Stores that meet at places which are looked up: blocks that own rows of the result.
#pragma once

#include "codegen/cuda/team_printer.h"
#include "ir/kernel_ir/scatter.h"

namespace nabla::codegen {

/// Rows and columns of the result are cut into tiles, a block each. A block looks through all updates, in order, for
/// those of its rows, and a thread combines what meets in its own elements: the same bits as in one thread. With b
/// blocks that reads every index b times, from the cache, 2048 at a step; updates are read once. The numbers at the
/// kernel's head are printed already.
void print_scatter(const kernel_ir::Kernel& kernel, const kernel_ir::Scatter& scatter,
                   const kernel_ir::ScatterMapping& cut, CppWriter& out, int& next_temp);

}  // namespace nabla::codegen
