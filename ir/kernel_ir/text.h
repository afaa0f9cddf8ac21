// Text of scalar expressions, shared by fragments, kernels and diagnostics.
#pragma once

#include <functional>
#include <string>

#include "ir/kernel_ir/expr.h"

namespace nabla::kernel_ir {

/// How references are spelled.
struct ExprNames {
  std::function<std::string(int)> axis, tensor, value;
};

/// "exp(x[i, j] - m) / s"; infix for + - * / and comparisons, function syntax for the rest. Constants carry their
/// dtype where it is not i64: "0.5:f32". Guarded loads: "x[i - 1] if i >= 1 else 0.0:f32".
std::string to_text(const Expr& e, const ExprNames& names);

}  // namespace nabla::kernel_ir
