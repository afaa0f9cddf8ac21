// What the program of one rank needs before it runs: memory, work, exchanges and times. Passes and tools decide by these values; text,
// JSON and the page are printed from them (cli/driver/report.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/bill/exchanges.h"
#include "ir/bill/least_time.h"
#include "ir/bill/library_calls.h"
#include "ir/bill/memory.h"
#include "ir/bill/prediction.h"
#include "ir/bill/timeline.h"
#include "ir/bill/transfers.h"
#include "ir/cost/grid_work.h"
#include "ir/program_set.h"
#include "ir/remark.h"
#include "ir/target.h"

namespace nabla::ir {

/// Memory that is in use at the peak of an entry.
struct LiveBuffer {
  std::string value;  ///< its name; empty for scratch memory
  std::string type;
  int64_t bytes = 0;
  std::string made_by;
  LocationRef location;
};

/// The bill of one run of an entry. `Dim` fields are formulas over the symbolic sizes. All other numbers hold for the largest sizes.
struct EntryBill {
  std::string name, function;
  Dim flops;                ///< executed floating-point operations
  Dim model_flops;          ///< without those that `--remat-bytes` computes a second time
  bool at_least = false;    ///< the FLOPs are a lower bound
  Dim bytes_moved;          ///< read and written by instructions
  Dim live_bytes;           ///< temporaries that are live at the peak
  int64_t instructions = 0;
  int64_t temporary_bytes = 0;  ///< reserved by the memory plan beside the state
  int64_t peak_bytes = 0;       ///< of the arena, with the state
  std::vector<LiveBuffer> largest_buffers = {};  ///< at most eight
  EntryMemory memory = {};
  Transfers to_device = {}, to_host = {};  ///< of GPUs
  Timeline timeline = {};
  Exchanges exchanges = {};
  // Of GPUs alone:
  LeastTime least = {};
  Runs runs = {};
  Prediction predicted = {};
};

/// The compiled code of one grid of a GPU kernel.
struct GridCode {
  std::string symbol;
  int64_t blocks = 0;
  int threads = 0;  ///< of a block
  int64_t shared_bytes = 0;
  std::vector<std::string> warnings;
  int registers = 0;  ///< of a thread; 0: unknown, as for PTX; then the fields below are unknown too
  int64_t local_bytes = 0, static_shared_bytes = 0;
  int64_t resident_warps = 0;
};

struct KernelBill {
  std::string name;
  int64_t launches = 0;  ///< in the program's text; 0 for the fallback of a library
  int64_t buffer_bytes = 0, bytes_moved = 0;
  // Of CPUs alone:
  int64_t units = 0;
  int threads = 0;  ///< at most
  // Of GPUs alone:
  LeastTime least = {};
  double moved_us = 0;                        ///< of the bytes alone
  std::vector<GridPrediction> expected = {};  ///< by grid
  double predicted_us = 0, warp_instructions = 0, sectors = 0;
  std::vector<GridCode> grids = {};  ///< empty until the kernel is compiled
};

struct Bill {
  std::vector<Remark> remarks = {};  ///< of passes
  int64_t state_bytes = 0, arena_bytes = 0, host_bytes = 0, constants_bytes = 0;
  std::vector<EntryBill> entries = {};
  std::vector<KernelBill> kernels = {};  ///< in the order of the planned module
  std::vector<LibraryBill> library_calls = {};

  const EntryBill* find(const std::string& entry) const;
};

/// What the bill of one class of ranks depends on beside its module.
struct BillContext {
  const ProgramSet* set = nullptr;  ///< null: one rank
  size_t of_class = 0;
  std::optional<StateRoles> roles = {};
  bool overlap = true;  ///< ranks compute while they exchange
  std::vector<Remark> remarks = {};
  bool several() const { return set != nullptr && set->ranks > 1; }
};

/// The bill of a module before lowering (`flat`) and after (`planned`). For GPUs, `expected` of the kernels and everything predicted
/// from it are missing.
Bill bill_of(const Module& flat, const Module& planned, const Target& target, const BillContext& context = {});

/// Computes `predicted_us`, instructions and sectors of kernels from `expected`, and `predicted` of entries from these. Requires a bill
/// of a GPU's program in which every kernel has `expected`.
void predict(Bill& bill);

}  // namespace nabla::ir
