// When a rank computes and when it exchanges in a run of an entry, as it is predicted.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "ir/module.h"
#include "ir/target.h"

namespace nabla::driver {

/// Microseconds that a node needs by itself; of loops, branches and collectives nobody asks.
using NodeTime = std::function<double(const ir::Function& planned, const ir::Node& node)>;

/// What one thread of a CPU is expected to need for what a planned module runs (ir/cost), in the memory that its plan takes.
NodeTime cpu_times(const ir::Module& planned, const ir::Target& target);

/// `us`, the whole run; `compute_us` and `exchange_us` within it; `compute` and `exchange`, what happens on either line as
/// [begin, microseconds, what, source line]. A collective starts where it stands, once the one before it has ended, and is awaited
/// where its result is read, or at once without `overlap` and where ranks are threads, which compute the exchange themselves. Of a loop
/// each trip is drawn, piece by piece, as long as they are hundreds of pieces, and those that are left as one on each line; a branch is
/// its longer side, a while one round. Sizes are the largest.
nlohmann::ordered_json timeline_of(const ir::Function& f, const ir::Module& planned, const ir::Target& target, const NodeTime& time,
                                   bool overlap);

/// Microseconds of a run of each entry, of a report for several ranks; of another none.
std::map<std::string, double> predicted_us(const std::string& report);

}  // namespace nabla::driver
