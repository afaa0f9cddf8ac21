// The reverse mode of remat: what is kept, and what is computed again.
#pragma once

#include "ir/ops/control/call.h"

namespace nabla::ops {

ir::VjpForward remat_vjp_forward(ir::VjpForwardContext& ctx);
std::vector<MaybeVal> remat_vjp(VjpContext& ctx);

}  // namespace nabla::ops
