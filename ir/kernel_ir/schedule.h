// How a kernel runs on its target: units of work for the threads of a CPU, grids of blocks for a GPU. The pass
// schedule-kernels chooses a schedule, the printer of the target obeys it. A schedule never changes a result beyond the
// rounding of sums.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "ir/dim.h"

namespace nabla::kernel_ir {

struct CpuSchedule {
  /// Iterations of the outermost `for` (its axes flattened) that form one unit of work; units are what threads
  /// share out, and their borders do not depend on the number of threads.
  int64_t unit = 1;
  ir::Dim units = 1;
  int max_threads = 1;   ///< at the sizes' upper bounds
  int vector_axis = -1;  ///< the axis whose neighbours go to vector lanes; -1: each statement's innermost own axis
};

/// Which template computes a procedure: a row of procedure_template.h.
enum class TemplateKind : uint8_t {
  kUser,          ///< the user's code
  kAttention,     ///< blocks of tiles of queries, and of keys
  kSortInBlock,   ///< a block holds what it must keep of a row in shared memory
  kMergeSort,     ///< blocks sort parts of rows, which are merged pair by pair
  kTeamScan,      ///< a thread, a warp or a block scans neighbouring rows
  kBlockPerRow,   ///< the threads of a block compute a row together
  kThreadPerRow,  ///< a thread computes the rows of a unit one after the other; the only one of CPUs
};

// ---- What the blocks of a grid do

/// An accumulator starts from its combiner's identity, a thread per element.
struct ClearMapping {
  int buffer = -1;
};
/// The iterations of one statement of the kernel's body, shared out to teams of threads.
struct TeamMapping {
  int team = 1;               ///< threads that execute one iteration together: 1, a warp of 32, or a whole block
  std::vector<int> parallel;  ///< axes whose iterations the teams share out; neighbouring teams differ in the last one
  std::vector<int> serial;    ///< axes along which iterations may meet: one team walks them in order
  /// Elements that a thread moves at a time: along the last of `parallel`, or, of a team, along what its statements share out.
  int pack = 1;
};
/// The iterations of a pointwise statement that reads along another axis than it stores: a block turns tiles in shared memory.
struct TurnMapping {
  std::vector<int> parallel;  ///< its axes; stores walk the last one
  int across = -1;            ///< the one that loads walk
};
/// A store of updates that meet at looked-up rows of the result: a block owns a tile of the result.
struct ScatterMapping {
  std::vector<int> parallel;  ///< axes of the columns, which never meet
  std::vector<int> serial;    ///< axes of the updates, which each block walks in order
  int tile_columns = 1;       ///< threads of a block side by side along the columns
  int64_t row_tiles = 1;      ///< into how many tiles the rows are cut
};
/// A matrix product, or a sum over windows as one: a block computes a tile of the result.
struct ProductMapping {
  /// Who computes: threads by multiply-adds, warps on tensor cores, or warpgroups of four warps (sm_90a).
  enum class By { kThreads, kWarps, kWarpgroups };
  By by = By::kThreads;
  int tile_rows = 16, tile_columns = 16;
  int stages = 1;  ///< tiles of the factors that a block's shared memory holds at a time
};
/// The whole body in one block.
struct BlockMapping {};
/// One grid of a procedure's template.
struct TemplateMapping {
  int team = 1;              ///< threads that work on a tile together
  int64_t tile_rows = 1;     ///< rows: of a unit, of a strip, queries or keys of a block
  int64_t tile_columns = 0;  ///< elements of a row at a time, or keys or queries; 0: all of a row
  bool warpgroups = false;   ///< products of attention by warpgroups of four warps, 64 rows of the tile each (sm_90a)
};

/// One grid. Any number of blocks is right: they walk the work in strides of the grid.
struct Grid {
  std::variant<ClearMapping, TeamMapping, TurnMapping, ScatterMapping, ProductMapping, BlockMapping, TemplateMapping> mapping;
  ir::Dim blocks = 1;    ///< at least 1
  int threads = 256;     ///< per block, exactly
  int shared_bytes = 0;  ///< dynamic shared memory per block
  int beside = 1;        ///< blocks that one multiprocessor is to hold: a bound on registers
};

/// Grids in the order in which they run: accumulators are cleared first; a TeamMapping, TurnMapping or
/// ScatterMapping stands for each statement of the body that is no `let`, in their order.
struct CudaSchedule {
  std::optional<TemplateKind> procedure_template;  ///< of a kernel with a procedure
  ir::Dim work = 1;  ///< 0 where sizes leave nothing to do: nothing is launched then
  std::vector<Grid> grids;
};

using Schedule = std::variant<CpuSchedule, CudaSchedule>;

}  // namespace nabla::kernel_ir
