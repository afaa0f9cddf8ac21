// Transform calls become derived functions.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// traced -> flat. Replaces the calls of grad, value_and_grad, jvp, vjp_forward, vjp_backward, vmap and autocast by calls
/// of derived functions, inner ones first; residuals become plain values. E0301, E0304: an op on an active path has no
/// derivative (every such op is reported); E0303: functions call each other in a cycle.
Result<ir::Module> lower_transforms(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
