// Sums of products over windows, such as convolutions, as matrix products.
#pragma once

#include <memory>

#include "ir/kernel_ir/product.h"

namespace nabla::kernel_ir {

/// for m..., b..., n... { let s = sum(k...) lhs * rhs; ...; store }, where lhs moves with the m, rhs with the n and
/// both with the b: products of matrices whose axes are several of the kernel's each. An axis of which one factor sees
/// only floordiv(axis, d), as of the features of a convolution in groups, counts as two.
struct WindowProduct {
  Kernel kernel;  ///< with the matrices' axes, and the loop's body for its own
  Let let;
  Contraction c;
  Expr lhs, rhs;
  std::map<int, std::vector<int>> parts;
  Product product() const { return {kernel, let, c, lhs, rhs, parts}; }
};

/// nullptr where the kernel is no such loop.
std::unique_ptr<WindowProduct> find_window_product(const Kernel& kernel);

}  // namespace nabla::kernel_ir
