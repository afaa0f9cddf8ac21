// Attention to parts of the keys, combined by the logsumexp of each part.
#pragma once

#include "passes/shard/rules/split.h"

namespace nabla::passes {

inline constexpr size_t kQ = 0, kK = 1, kV = 2;  ///< operands of attention
inline constexpr size_t kPositions = 2;          ///< their dimension of queries or keys

/// The first result of attention, in the dtype of its logsumexp, and the logsumexp (-infinity: the row sees no key).
struct Attended {
  ir::Val out, logsumexp;
};
/// From the two results of the node.
Attended attended(const std::vector<ir::Val>& results);
/// Over the keys of both.
Attended combined(const Attended& x, const Attended& y);
/// Over the keys that the ranks of the axes have: their weights follow from the largest logsumexp, and the sum of what
/// they weigh is left pending.
Attended combined_over_ranks(const RuleContext& c, const Attended& own, const ir::Axes& axes);

}  // namespace nabla::passes
