// An entry's instructions, resolved into a flat list: the step path only follows pointers. Addresses are resolved at
// load; sizes at bind, once for every tuple of symbol values.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/exec/check_nan.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/sizes.h"
#include "runtime/exec/trace.h"
#include "runtime/format/program_generated.h"

namespace nabla::exec {

/// One resolved call. Its operands are `slots[first_slot ...]` of the plan.
struct Step {
  const void* kernel = nullptr;  ///< the engine's; one of kernel, library, control or, when there is none, a copy
  device::LibraryCall* library = nullptr;
  int32_t control = -1;  ///< of the plan's controls
  uint32_t first_slot = 0;
  int32_t max_threads = 0;  ///< 0: no bound
  int64_t units = 0;        ///< of a kernel; bytes of a copy
  uint32_t first_extent = 0, extents = 0;
  uint32_t first_blocks = 0;  ///< on a GPU
  uint32_t args = 0;          ///< slots of a kernel
};

/// A slot whose address depends on the caller's arrays.
struct Patch {
  uint32_t slot;
  uint32_t index;  ///< of the entry's input or output
  uint64_t offset;
};

/// Steps [first, last) of the plan.
struct StepRange {
  uint32_t first = 0, last = 0;
};

/// A loop, a branch, a call of a block, operands that are handed to the process, an exchange with other ranks, or a transfer
/// between the host's memory and a GPU's.
struct Control {
  enum class Kind : uint8_t { kLoop, kWhile, kBranch, kDebug, kCall, kStart, kWait };
  Kind kind = Kind::kLoop;
  std::vector<StepRange> ranges;  ///< the body; condition and body; the branches
  int64_t trips = 0;              ///< of a loop
  bool reverse = false;
  bool index_is_bool = false;  ///< of a branch
  struct Moving {
    uint32_t slot;
    int64_t stride;   ///< bytes per count of the register
    uint32_t size;    ///< reference for `stride`
    int64_t modulus;  ///< 0: none
    int64_t value;    ///< of the register, where a call sets it
    /// Bytes from the place at one count to that at another.
    int64_t way(int64_t from, int64_t to) const {
      return stride * (modulus == 0 ? to - from : to % modulus - from % modulus);
    }
  };
  std::vector<Moving> moving;  ///< slots that move with its registers; they are where they were when it ends
  const format::Debug* debug = nullptr;
  std::vector<std::vector<int64_t>> shapes;  ///< of the operands of `debug`, in the order of its slots
  /// Of kStart: a collective, send, recv or transfer; its slots are its operands.
  const format::Instruction* exchange = nullptr;
  uint32_t ticket = 0;                            ///< of kStart and kWait: the step that starts
  int64_t bytes = 0;                              ///< of kStart
};

/// Steps and controls at one tuple of symbol values. A kernel's sizes are `extents[first_extent ...]`.
struct Bound {
  std::vector<int64_t> values;  ///< by the entry's sources
  std::vector<int64_t> bucket;  ///< up to which values its launches and library calls serve, by the sources
  std::vector<Step> steps;
  std::vector<Control> controls;
  std::vector<long> extents;
  std::vector<int64_t>
      blocks;  ///< of the grids of a GPU's kernels: `blocks[first_blocks ...]` of a step, at the bucket
  std::vector<std::vector<int64_t>> output_shapes;
  std::vector<uint64_t> input_bytes, output_bytes;  ///< of the caller's arrays
  std::vector<std::vector<Operand>> operands;       ///< per step, those of its slots; empty unless results are checked
  std::vector<uint32_t> labels;                     ///< of the trace, one per step; empty without a trace
  std::unique_ptr<EngineBound> machine;             ///< what the engine keeps; may be null
};

struct Plan {
  std::vector<Step> steps;  ///< without sizes
  std::vector<Control> controls;
  uint32_t top_steps = 0;  ///< the entry's own instructions are steps [0, top_steps)
  std::vector<void*> slots;
  std::vector<Patch> input_patches, output_patches;
  uint32_t entry_label = 0;                              ///< of the trace
  std::vector<const format::Instruction*> instructions;  ///< one per step
  std::vector<int64_t> fixed;                            ///< of a variant: what each source must be; -1: anything

  bool serves(const std::vector<int64_t>& values) const;
  /// Puts the addresses of the entry's inputs and outputs into the slots.
  void patch(const void* const* inputs, void* const* outputs);
};

/// The plans of an entry and the tuples that they are bound to.
struct EntryPlan {
  std::vector<Plan> plans;  ///< variants first; the last one serves every tuple
  struct Tuple {
    std::unique_ptr<Bound> bound;
    Plan* plan;
  };
  std::vector<Tuple> tuples;  ///< the most recently made last; at most kMaxTuples
  Tuple* current = nullptr;
  int64_t runs = 0;  ///< that were begun
  static constexpr size_t kMaxTuples = 256;
};

/// What binding needs.
struct Binder {
  Engine& engine;
  TraceRecorder* trace = nullptr;
  bool check_nan = false;  ///< keep what the steps' slots hold
};

/// Resolves addresses. `program` has passed the bundle reader's checks.
EntryPlan plan_entry(const format::Program& program, const format::Entry& entry, const Binder& binder);
/// Makes `values` the plan's current tuple; one that was bound before allocates nothing. E0602 for library calls that
/// cannot be made here.
Status bind_entry(EntryPlan& plan, const EntrySizes& sizes, const std::vector<int64_t>& values, const Binder& binder);

/// The runtime's element type of a checked schema dtype.
inline DType dtype_of(format::DType dtype) { return static_cast<DType>(static_cast<uint8_t>(dtype)); }

}  // namespace nabla::exec
