// Along which axes the values of a manual region may differ between ranks.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op_def.h"

namespace nabla::ir {

/// Names of manual axes.
using VaryingAxes = std::set<std::string>;

/// Of an operand or a result of a region that is cut so.
VaryingAxes varying_of(const Sharding& parts);

/// Of each result of a function of a region whose parameters vary so. A result varies as all operands of its node
/// together, but for what collectives combine or give to each rank (OpDef::varying); what a branch or a loop computes
/// also as its predicate does. `functions` finds those that nodes name; transforms have none to ask, so that the
/// function is one of a flat module.
std::vector<VaryingAxes> varying_results(const Function& f, const std::vector<VaryingAxes>& params,
                                         const std::function<const Function*(std::string_view)>& functions);

/// Of the results of a node that names no functions, whose operands vary so together.
VaryingAxes varying_after(const Node& node, VaryingAxes operands);

}  // namespace nabla::ir
