// Stores that meet at places which are looked up.
#pragma once

#include <optional>
#include <vector>

#include "ir/kernel_ir/kernel.h"

namespace nabla::kernel_ir {

/// Threads of a block that owns a tile of a scatter's result.
constexpr int kScatterThreads = 256;

/// store y[ids[u]..., j] combiner= x[u, j]: `updates` (u) may meet, `columns` (j) never do.
struct Scatter {
  const Store& store;
  std::vector<int> updates, columns;  ///< axes
  Expr row;                           ///< which row of the result an update names, all looked-up indices in one
  ir::Dim rows = 1;                   ///< how many there are
};

/// The scatter that `store`, alone in a loop over these axes, is; nullopt where it is none.
std::optional<Scatter> find_scatter(const Kernel& kernel, const Store& store, const std::vector<int>& columns,
                                    const std::vector<int>& updates);

}  // namespace nabla::kernel_ir
