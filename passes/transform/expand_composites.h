// Composites that no kernel computes whole give way to their decompositions.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// Replaces every node whose record says Lowering::kDecompose by its decomposition, until there is none.
Result<ir::Module> expand_composites(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
