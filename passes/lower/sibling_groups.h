// Results of a function that are computed from the same tensor, element by element, share a kernel.
#pragma once

#include <vector>

#include "passes/lower/fusion.h"
#include "passes/lower/group_order.h"

namespace nabla::passes {

struct SiblingLimits {
  size_t members;  ///< of a group
  size_t nodes;    ///< of all their formulas
};

/// Unites groups whose members are results of the function and read tensors only at their own position. One pass over a
/// tensor then computes several results. Results are in memory until the function ends, so memory does not grow.
/// Two groups are united if the tensors that one of them reads are among those of the other; scalars do not count. A group
/// that was taken over has no members afterwards, and `order` follows. `is_result` is by tensor.
void unite_siblings(FusionPlan& plan, GroupOrder& order, const std::vector<bool>& is_result, const SiblingLimits& limits);

}  // namespace nabla::passes
