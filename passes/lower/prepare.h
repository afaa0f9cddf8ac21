// The pass before fuse: results in memory of their own, and matrix products in the form that kernels and libraries take.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// The pass `prepare`; see the registry. Every node says from then on which node it was (Node::computes).
Result<ir::Module> prepare(const ir::Module& module, PassContext& context);

/// E0205 where the function is not as `prepare` leaves it, or was made for another target.
Status check_prepared(const ir::Function& function, const ir::Module& module, const ir::Target& target);

}  // namespace nabla::passes
