// Manual regions: where values that are the same on all ranks begin to differ.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// Puts `vary` into the functions of manual regions wherever a floating operand of a node differs between ranks along
/// fewer axes than another one, and before collectives along axes on which their operand does not differ: then the
/// derivative of every op is that of its operands as they are, and gradients of what is the same on all ranks are
/// summed (the transpose of `vary` is an all_reduce). Functions that regions run are copied for each set of axes along
/// which their parameters differ. A module without regions stays as it is; doing it twice changes nothing. E0210 for
///   a result that may differ along an axis that its layout `out` does not name
///   a collective along an axis that is not manual where it stands, and a `shard` along one that is
///   a region inside of another one along the same axis
///   a collective that not all ranks of a group come to: in a branch or loop whose predicate differs along its axes
Result<ir::Module> mark_varying(const ir::Module& module, const ir::OpTable& ops);

}  // namespace nabla::passes
