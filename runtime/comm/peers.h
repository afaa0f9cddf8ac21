// One rank in this process, the others elsewhere: collectives made of messages.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/comm/transport.h"
#include "runtime/comm/world.h"
#include "runtime/format/ranks_generated.h"

namespace nabla::comm {

struct PeerOptions {
  double deadline_s = 300;      ///< how long a rank waits for its partners, a second more for every MiB
  const char* late_help = "";   ///< of E0611, for callers who set the deadline by no option of nabla-run
  bool yield = true;            ///< other ranks want this CPU: leave it to them while waiting
  uint32_t in_flight = 1;       ///< of the rank's program: comm::in_flight
  uint32_t few = 8;             ///< groups up to this size exchange directly; in larger ones small values take log2 rounds
  /// What ends the waiting: another rank's failure, as whoever watches them all tells it. Called often. May be null.
  std::function<std::optional<Diagnostic>()> verdict;
  /// Where it turns from 0, the launcher ends this rank: E0610 says for whom it waited. May be null.
  const volatile std::sig_atomic_t* ended = nullptr;
};

/// One rank in this process. It combines values in the order of the members, as LocalRanks does: the same bits on every engine.
/// In a reduction every member sends each shard to the member that owns it, which combines the shards. All ranks together send as many
/// bytes as in a ring. In groups of more than `few` members a broadcast is a tree, and small values are exchanged in log2(members) rounds
/// (block_rounds.h), or gathered: each round doubles the number of values that a member has.
/// E0614 where the transport has other ranks than the table, which outlives the world.
Result<std::unique_ptr<World>> make_peers(const format::Ranks& ranks, std::shared_ptr<Transport> transport, const PeerOptions& options);

/// What exec::SessionOptions::world asks for: make_peers over this transport. `options.in_flight` is that of each call.
std::function<Result<std::unique_ptr<World>>(const format::Ranks&, uint32_t in_flight)> peers_over(
    std::shared_ptr<Transport> transport, PeerOptions options);

}  // namespace nabla::comm
