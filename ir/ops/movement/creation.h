// What ops that make tensors share.
#pragma once

#include "ir/ops/common.h"

namespace nabla::ops {

Status require_nonnegative(const InferContext& ctx, const Shape& shape, std::string_view constraint);

/// Pieces of such a result depend on where they lie in the whole, so no dimension passes through.
Factors fixed_factors(const TypedOp& op);

}  // namespace nabla::ops
