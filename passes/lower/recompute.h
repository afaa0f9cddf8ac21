// Memory for time: values that are computed again instead of being kept.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// kernels -> kernels. Where state and temporaries of an entry would need more than option `remat-bytes`, values that
/// lie idle at the peak are dropped and computed again, by the same kernels, just before their next use; those first
/// that free the most bytes over the longest time for the least work. Results keep their bits. Without the option
/// nothing changes. E0405 with the least that can be reached when that is still more. Loops and branches stay as they
/// are. Greedy, as in Kirisame et al., "Dynamic tensor rematerialization", 2021, but before the program runs.
Result<ir::Module> recompute(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
