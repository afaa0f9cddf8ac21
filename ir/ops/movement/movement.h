// The movement ops stand in three files; movement.cc joins them.
#pragma once

#include <vector>

#include "ir/ops/common.h"

namespace nabla::ops {

/// The reason, for error messages, that an op has no decomposition.
inline constexpr const char* kPrimitive = "primitive";
/// Moves bytes and computes nothing.
inline Cost movement_cost(const TypedOp& op) { return ir::pointwise_cost(op, 0); }

std::vector<OpDef> cut_ops();  ///< slice, pad, concatenate, reverse
OpDef section_op();

}  // namespace nabla::ops
