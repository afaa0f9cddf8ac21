// When a rank computes and when it exchanges values in a run of an entry, as predicted.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/target.h"

namespace nabla::ir {

/// Microseconds that a node needs by itself. It is never asked for loops, branches and collectives.
using NodeTime = std::function<double(const Function& planned, const Node& node)>;

/// Returns what one thread of a CPU is expected to need for the nodes of a planned module (ir/cost), with the module's arena as the
/// memory that a run goes through.
NodeTime cpu_times(const Module& planned, const Target& target);

struct TimelinePiece {
  double begin_us = 0, us = 0;
  std::string what;      ///< "all_reduce along {dp}, trip 2 of 8 of scan"
  LocationRef location;  ///< of the node
};
/// The predicted timeline of one run of an entry. Times are rounded to nanoseconds.
struct Timeline {
  double us = 0;                               ///< the whole run
  double compute_us = 0, exchange_us = 0;      ///< within it
  std::vector<TimelinePiece> compute, exchange;  ///< one after the other
};

/// A collective starts at its place in the program, after the collective before it has ended. The rank waits for it where its result is
/// read. It waits at once without `overlap`, and if ranks are threads, which compute the exchange themselves. The first iterations of a
/// loop are drawn piece by piece, up to a few hundred pieces, and the others as one piece on each line. A branch counts its longer
/// side, a while one iteration. Symbolic sizes have their largest values.
Timeline timeline_of(const Function& f, const Module& planned, const Target& target, const NodeTime& time, bool overlap);

}  // namespace nabla::ir
