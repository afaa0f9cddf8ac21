// How the ranks of a program exchange values: one interface, which engines implement. `local` (local.h): ranks are
// threads of one process. `mpi` (peers.h): they are processes. `nccl`
// (runtime/nccl): they are processes, whose values stay on their GPUs.
#pragma once

#include <cstdint>

#include "runtime/base/diagnostic.h"
#include "runtime/format/program_generated.h"

namespace nabla::comm {

/// One collective of a group, at the sizes of the run. Groups and channels are those of the rank's class (ranks.fbs).
struct CollectiveCall {
  format::CollectiveKind kind = format::CollectiveKind::AllReduce;
  format::Reduction reduction = format::Reduction::None;
  format::DType dtype = format::DType::F32;
  uint32_t group = 0;
  const void* from = nullptr;
  void* to = nullptr;                ///< of AllReduce it may be `from`
  uint64_t bytes = 0;                ///< of `from`
  uint32_t root = 0;                 ///< of Broadcast
  const int32_t* targets = nullptr;  ///< of Permute: by member, to which it sends; -1: to none
  const format::Instruction* at = nullptr;  ///< for messages; may be null
};

class StreamCommunicator;

/// One rank's end, used by its thread alone. What a ticket started is left alone until `wait` of the same ticket, which
/// every one gets. All members of a group start its collectives in the same order. Every function returns E0609 when a
/// partner does something else or has ended, E0611 when it has not come when the deadline is over, and when another rank
/// has failed its error; then the run is over.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual Status start(uint32_t ticket, const CollectiveCall& call) = 0;
  virtual Status send(uint32_t ticket, uint32_t channel, const void* from, uint64_t bytes, const format::Instruction* at) = 0;
  virtual Status recv(uint32_t ticket, uint32_t channel, void* to, uint64_t bytes, const format::Instruction* at) = 0;
  virtual Status wait(uint32_t ticket) = 0;
  /// How many ranks a group of this rank's class has.
  virtual uint32_t members(uint32_t group) const = 0;
  /// Where values are exchanged in the memory of GPUs (stream.h); null: in the host's.
  virtual StreamCommunicator* on_stream() { return nullptr; }
};

}  // namespace nabla::comm
