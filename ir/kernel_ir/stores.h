// Which iterations of a kernel may store to the same place, and what of a kernel can be a grid of its own.
#pragma once

#include <vector>

#include "ir/kernel_ir/kernel.h"

namespace nabla::kernel_ir {

/// Whether two iterations may store to the same element: with a combiner, or at an index that is loaded.
bool may_meet(const Store& store);
/// Whether different positions on `axis` always address different elements.
bool is_plain_index(const Store& store, int axis);
/// Whether different positions on `axis` may address the same element; their stores are then executed in order.
bool meets_along(const Kernel& kernel, const Store& store, int axis);
/// Whether one atomic instruction does the store: an integer combiner, whose order does not matter.
bool has_atomic(const Kernel& kernel, const Store& store);
/// All stores of a body, in their order.
void collect_stores(const Body& body, std::vector<const Store*>& out);
/// Whether the iterations of an inner loop meet: a team of threads walks them in order, together.
bool walked_together(const Kernel& kernel, const For& loop);

/// A statement of a kernel's body that is no `let`, as a grid of its own runs it.
struct GridStatement {
  std::vector<int> axes;  ///< of the loop; of a lone store also its own
  Body body;              ///< of an iteration
  /// The store that is all of the body; nullptr: there is more.
  const Store* lone() const { return body.size() == 1 ? std::get_if<Store>(&body[0].node) : nullptr; }
};
std::vector<GridStatement> grid_statements(const Kernel& kernel);

}  // namespace nabla::kernel_ir
