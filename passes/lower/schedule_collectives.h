// When communication starts.
#pragma once

#include "ir/module.h"
#include "passes/pass.h"

namespace nabla::passes {

/// kernels -> kernels. A collective moves before nodes that it does not depend on, until what runs meanwhile takes as long
/// as it (ir/cost), as long as temporaries need no more than `overlap-bytes` above what they needed. Nothing moves with
/// `overlap` false. With `prefetch` gathers of parameters start so many ahead of their use (prefetch.h), whatever memory that
/// takes, and the limit of the others counts from there. All ranks run one program, so that they still meet in one order.
Result<ir::Module> schedule_collectives(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
