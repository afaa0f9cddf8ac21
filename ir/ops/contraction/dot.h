// What dot_general shares with the op that stands for it after lowering.
#pragma once

#include "ir/ops/common.h"

namespace nabla::ops {

/// The type of the product of operands 0 and 1; checks C1 to C4 of dot_general.
InferResult infer_dot(const InferContext& ctx);
/// Two operations per product; bytes of all operands and of the result.
Cost cost_dot(const TypedOp& op);

}  // namespace nabla::ops
