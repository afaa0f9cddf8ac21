// Comparisons of an axis with a number, such as guards of the parts of a concatenation.
#pragma once

#include <optional>

#include "ir/kernel_ir/expr.h"

namespace nabla::kernel_ir {

/// A condition that has one value where the axis is before a position, and the other from there on.
struct AxisStep {
  int axis;
  ir::Dim at;
  bool before;  ///< its value there
};
/// Nullopt where the condition is not a comparison (lt, le, ge, gt) of integers like `axis + 3 < n`.
std::optional<AxisStep> as_axis_step(const Expr& condition);

}  // namespace nabla::kernel_ir
