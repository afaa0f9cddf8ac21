// One rank in this process, the others elsewhere, whose values go from GPU to GPU by NVIDIA's NCCL.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/stream.h"
#include "runtime/comm/world.h"
#include "runtime/format/ranks_generated.h"
#include "runtime/nccl/meeting.h"

namespace nabla::nccl {

struct RankOptions {
  uint32_t rank = 0, ranks = 1;
  uint32_t local_ranks = 1;  ///< of this machine, which share its GPUs
  uint32_t in_flight = 1;    ///< of the rank's program: comm::in_flight
  double deadline_s = 300;   ///< how long a rank waits for its partners, a second more for every MiB
  double abort_s = 10;       ///< for NCCL to end what is under way; a rank in which it has not by then is ended hard:
  std::function<void(const Diagnostic&)> end_hard;  ///< called by another thread; does not return. May be null
  /// What ends the waiting: another rank's failure, as whoever watches them all tells it. Called often. May be null.
  std::function<std::optional<Diagnostic>()> verdict;
  Meeting meet;
  std::string prefix = "nccl/0";  ///< of its keys, which no other start of the job has
};

/// Does NCCL combine values of this dtype so?
bool combines(format::Reduction reduction, format::DType dtype);

/// One rank in this process. Each group has a communicator of NCCL and all collectives of the rank one stream, in which they run in
/// the order of the program. Each channel has a communicator and a stream of its own, so that a message that nobody takes yet keeps
/// nothing else waiting: it leaves from memory of the channel. What NCCL adds up is added up in an order of its own, and bytes are
/// passed through memory of both GPUs.
/// E0602 where NCCL is not there, E0614 for other ranks than those of the table, which outlives the world.
Result<std::unique_ptr<comm::World>> make_ranks(const format::Ranks& table, const RankOptions& options);

/// What exec::SessionOptions::world asks for: make_ranks. `options.in_flight` is that of each call.
std::function<Result<std::unique_ptr<comm::World>>(const format::Ranks&, uint32_t in_flight)> over_nccl(RankOptions options);

}  // namespace nabla::nccl
