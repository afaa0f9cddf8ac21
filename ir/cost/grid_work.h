// What the grids of a kernel's schedule for GPUs do: how often which part of a thread's code runs, and the sectors of memory that
// warps ask for. Together with a kernel's machine code it gives the time that the kernel takes (codegen/cuda/model.h).
#pragma once

#include <vector>

#include "ir/kernel_ir/kernel.h"

namespace nabla::ir {

inline constexpr int kSectorBytes = 32;  ///< of a GPU's caches: what a warp's access is made of

/// A loop that a thread runs within an iteration, as the kernel's text has it: an element a trip. Bytes are those of a thread and trip.
struct InnerLoop {
  double trips = 0;        ///< of a thread, in one iteration
  double load_bytes = 0;   ///< read from arrays, and from rows that a team keeps in shared memory
  double store_bytes = 0;  ///< written to arrays
  double row_bytes = 0;    ///< written to such rows
};

/// Of all warps of a grid together, at the largest sizes.
struct GridWork {
  double turns = 0;              ///< iterations of the outermost loop, each counted for every warp that takes part
  double store_bytes = 0;        ///< of a thread and turn, beside the inner loops: written to arrays
  std::vector<InnerLoop> loops;  ///< in the order of the text; those of a product are known by what they multiply
  double around = 1;             ///< trips of ordered loops around the inner ones
  /// Turns of loops by how deep they stand, from the outermost; empty: what else is said here counts.
  std::vector<double> by_depth;
  double multiply_adds = 0;          ///< of products on tiles, also of those that lie partly outside
  double ahead = 1;                  ///< steps before which a tile's copy begins
  double steps = 0;                  ///< of warpgroups: groups of four wgmma, a tile of k of a product, counted for every warp
  DType factors = DType::kF32;       ///< of those products
  double sectors = 0;                ///< that warps ask for; what every block reads again and its own cache may hold counts once
  bool known = true;                 ///< false: nothing but the bytes, such as of a sort or of the user's code
};
/// What a grid is expected to do and to take (codegen/cuda/model.h).
struct GridPrediction {
  bool counted = false;     ///< by its machine code; otherwise by the schedule alone
  double instructions = 0;  ///< issued by all warps together; one instruction of a warp counts once for its 32 threads
  double sectors = 0;       ///< of 32 bytes, requested by warps
  double code_us = 0;       ///< for issue, for products, and for the latency of memory if few warps hide it
  double sectors_us = 0;    ///< of the cache that multiprocessors share; 0 if its rate is not published
};

/// Requires a schedule for GPUs with such a grid.
GridWork grid_work(const kernel_ir::Kernel& kernel, size_t grid);

}  // namespace nabla::ir
