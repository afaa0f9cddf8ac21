// Sums of products over windows, such as convolutions, as matrix products.
#pragma once

#include <memory>

#include "codegen/cuda/product.h"

namespace nabla::codegen {

/// for m..., b..., n... { let s = sum(k...) lhs * rhs; ...; store }, where lhs moves with the m, rhs with the n and
/// both with the b: products of matrices whose axes are several of the kernel's each. An axis of which one factor sees
/// only floordiv(axis, d), as of the features of a convolution in groups, counts as two.
struct WindowProduct {
  kernel_ir::Kernel kernel;  ///< with the matrices' axes, and the loop's body for its own
  kernel_ir::Let let;
  kernel_ir::Contraction c;
  kernel_ir::Expr lhs, rhs;
  std::map<int, std::vector<int>> parts;
  Product product(const ir::Target& target) const { return {kernel, let, c, lhs, rhs, target, parts}; }
};

/// nullptr where the kernel is no such loop, or where tiles do not pay: fewer than 16 rows, 8 columns or 16 terms.
std::unique_ptr<WindowProduct> find_window_product(const kernel_ir::Kernel& kernel, const ir::Target& target);

}  // namespace nabla::codegen
