// Stores that meet at places which are looked up: blocks that own rows of the result.
#pragma once

#include "codegen/cuda/printer.h"
#include "codegen/cuda/team_printer.h"

namespace nabla::codegen {

/// store y[ids[u]..., j] combiner= x[u, j]: `updates` (u) may meet, `columns` (j) never do.
struct Scatter {
  const kernel_ir::Store& store;
  std::vector<int> updates, columns;  ///< axes
  kernel_ir::Expr row;                ///< which row of the result an update names, all looked-up indices in one
  ir::Dim rows = 1;                   ///< how many there are
};

/// The scatter that `store`, alone in a loop over these axes, is; nullopt where it is none, where few updates meet, or
/// where its columns alone keep a GPU busy.
std::optional<Scatter> find_scatter(const kernel_ir::Kernel& kernel, const kernel_ir::Store& store,
                                    const std::vector<int>& columns, const std::vector<int>& updates,
                                    const ir::Target& target);

/// Rows and columns of the result are cut into tiles, a block each. A block looks through all updates, in order, for
/// those of its rows, and a thread combines what meets in its own elements: the same bits as in one thread. With b
/// blocks that reads every index b times, from the cache, 2048 at a step; updates are read once. The numbers at the
/// kernel's head are printed already. Sets threads and blocks of `grid`.
void print_scatter(const kernel_ir::Kernel& kernel, const Scatter& scatter, const ir::Target& target, CppWriter& out,
                   int& next_temp, CudaGrid& grid);

}  // namespace nabla::codegen
