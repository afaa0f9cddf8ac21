// Remarks: what the compiler tells its user about decisions that are no errors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nabla::ir {

/// What a remark is about. Remarks of one kind differ only in names, places and numbers.
enum class RemarkKind : uint8_t {
  // apply-strategy
  kZeroShares,         ///< the state that ranks share by ZeRO
  kZeroLayers,         ///< a leaf of stacked layers is sharded by layer
  kZeroWhole,          ///< a leaf that ZeRO does not shard
  kZeroPart,           ///< a leaf that the program shards and ZeRO does not shard further
  kInputClosed,        ///< an input is not sharded along the data axes, because its own layout says otherwise
  kInputIndivisible,   ///< an input is not sharded along the data axes, because they do not divide its batch
  kOffload,            ///< state in the memory of the host
  // auto-shard
  kSearch,             ///< the layouts that a search found
  kPropagatedValues,   ///< layouts of intermediate values come from propagation instead of the search
  kRepeatedSearches,   ///< the searches that a memory limit needed
  kDataParallel,       ///< plain data parallelism is used instead of the layouts that were found
  kSearchedBits,       ///< the bits of a deterministic program depend on the layouts that were found
  // pad-shards, propagate, partition
  kWithoutPadding,     ///< an op gets a value without its padding
  kIdleAxis,           ///< nothing is sharded along an axis of the mesh
  kWeakLayout,         ///< a layout with less weight is not followed
  kMovedAxes,          ///< a layout with less weight is followed in another dimension
  kLayoutConflict,     ///< one of two layouts wins
  kGathered,           ///< an operand is gathered for an op that cannot be sharded
  kReduceDType,        ///< the option reduce-dtype has no effect
  kDeterministic,      ///< what deterministic sums gather
  // regather
  kKeptGather,         ///< a gathered parameter that is kept within a function
  kKeptGatherOfLoop,   ///< gathered parameters of all trips of a loop that are kept
  kRepeatedGather,     ///< a parameter that is gathered again although it should be kept
  kNoRepeatedGather,   ///< the option reshard-after-forward has no effect
  // Lowering
  kUnusedTuning,       ///< a tuning file has a product that the program lacks
  kHostState,          ///< bytes that move between the memories of host and device
  kRecompute,          ///< kernels that run again to save memory
  kPrefetch,           ///< gathers of parameters that start earlier
  kNoPrefetch,         ///< the option prefetch has no effect
  kEarlierCollectives, ///< collectives or copies that start earlier
  // Code generation
  kSlowKernel,         ///< advice of the assembler
};

struct Remark {
  RemarkKind kind;
  std::string subject;  ///< the name of what it is about: a value, a leaf, a function, an axis or an option
  std::string text;     ///< a sentence
  std::optional<int64_t> bytes = {};  ///< what the decision costs, where that is known

  bool operator==(const Remark&) const = default;
};

std::vector<std::string> texts_of(const std::vector<Remark>& remarks);

/// One note for each kind of remark, in the order in which the kinds occur: the remark that costs the most bytes, or else the first one.
/// The note says how many remarks there are of its kind. Collectives that start earlier get no note, because users need not act on them.
std::vector<std::string> notes_of(const std::vector<Remark>& remarks);

}  // namespace nabla::ir
