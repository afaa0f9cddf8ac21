// Nodes of a function as their records see them.
#pragma once

#include "ir/module.h"
#include "ir/op_def.h"

namespace nabla::ir {

/// The node seen by its types.
TypedOp typed(const Function& f, const Node& node);
/// How the node runs its functions. Requires Lowering::kControl.
ControlFlow control_of(const Function& f, const Node& node);

}  // namespace nabla::ir
