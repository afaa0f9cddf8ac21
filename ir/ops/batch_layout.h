// How what vmap has made lies over the mesh. Included by the files of ir/ops only.
#pragma once

#include "ir/ops/common.h"

namespace nabla::ops {

/// The layout with the batch in front, along the axis that vmap names: padded where that does not divide it, so that any
/// batch will do. Refuses the node where it cannot be padded, and leaves the batch whole.
ir::Sharding with_batch(const BatchContext& ctx, ir::Sharding layout);

}  // namespace nabla::ops
