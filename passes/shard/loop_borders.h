// What the layout of state says of values that a loop uses in every trip.
#pragma once

#include "ir/module.h"
#include "ir/op_def.h"

namespace nabla::passes {

/// The same flat module, where layouts of state that are asked for with less weight than others (ZeRO's, of priority 1) do not go
/// into loops: not into constants, which would be gathered in every trip, nor into sums that begin with zeros (gradients of these
/// constants), which would be exchanged in every trip. They are gathered before the loop, and summed over ranks after it.
/// Carries that begin with state itself, and what is cut into slices, lie as the state does.
ir::Module with_loop_borders(const ir::Module& flat, const ir::OpTable& ops);

}  // namespace nabla::passes
