// How every value is laid out over the mesh.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// flat -> sharded. From the layouts of parameters and state leaves and from `shard` nodes to all values, forward and
/// backward, by the factors of the ops; through the bodies of loops and branches. Closed dimensions stay. Where two
/// layouts meet that cannot both hold, the one of the larger tensor wins, which a remark says: the other is laid out
/// anew in front of the op.
Result<ir::Module> propagate(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
