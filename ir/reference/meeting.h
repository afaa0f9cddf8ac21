// Where ranks that run as threads exchange values.
#pragma once

#include <functional>
#include <optional>

#include "ir/op_def.h"

namespace nabla::ir {

constexpr int64_t kMostRanks = 256;  ///< a thread each

/// run(rank, peers) for every rank of a mesh, each on a thread of its own; they meet in collectives. What ended them,
/// where they did not: E0208 for ranks that come to different collectives, or that wait for one that has ended.
/// `outer`: what a rank of this mesh is to ranks along other axes; it knows only its place among them.
std::optional<Diagnostic> run_together(const Mesh& mesh, const Peers* outer,
                                       const std::function<void(int64_t rank, Peers& peers)>& run);

}  // namespace nabla::ir
