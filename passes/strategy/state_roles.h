// Finds what the leaves of a program's state are for.
#pragma once

#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/state_roles.h"

namespace nabla::passes {

using ir::LeafRole;
using ir::StateRoles;

/// Read off from the gradients that entries compute. Requires stage traced, where they are calls still. E0303 and E0107 as
/// in `bottom_up`. A leaf is a parameter if an entry differentiates with respect to a value computed from it. With
/// `directly`, only ops with one operand, such as convert and reshape, may be between the leaf and that value.
Result<StateRoles> roles_of_state(const ir::Module& module, bool directly = false);

/// What a node of a function differentiates with respect to, with its gradient. `makers`: ir::producers of the function.
std::vector<std::pair<ir::ValueId, ir::ValueId>> gradient_pairs(const ir::Function& f, const ir::Node& n,
                                                                const std::vector<int>& makers);

}  // namespace nabla::passes
