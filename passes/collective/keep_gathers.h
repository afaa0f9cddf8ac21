// Parameters that are gathered once and kept.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// The module without gathers of what has been gathered before: behind the fences of what is computed again, and in a loop whose slices
/// an earlier loop has gathered, which then stacks them. Remarks say which loops do so, and what is gathered more than once all the same:
/// by loops or branches within loops, which hand on no gathered value.
Result<ir::Module> with_kept_gathers(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
