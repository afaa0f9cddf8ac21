#include "ir/kernel_ir/scatter.h"

#include <algorithm>

namespace nabla::kernel_ir {
namespace {

bool reads(const Expr& e, int buffer) {
  bool does = false;
  if (e) visit(e, [&](const Expr& x) { does |= x->kind == ExprKind::kLoad && x->ref == buffer; });
  return does;
}

}  // namespace

std::optional<Scatter> find_scatter(const Kernel& k, const Store& store, const std::vector<int>& columns,
                                    const std::vector<int>& updates) {
  Scatter s{store, updates, columns, index(0), 1};
  bool fits = !reads(store.expr, store.buffer) && !reads(store.guard, store.buffer), looked_up = false;
  const ir::Shape& shape = k.buffers[store.buffer].shape;
  for (size_t d = 0; d < store.indices.size(); ++d) {
    const Expr& i = store.indices[d];
    bool column = std::any_of(columns.begin(), columns.end(), [&](int a) { return i == axis(a); });
    if (column) continue;
    fits &= !reads(i, store.buffer);
    for (int a : columns) fits &= !uses_axis(i, a);
    looked_up |= !as_affine(i);
    s.row = s.row * dim(shape[d]) + i;
    s.rows = s.rows * shape[d];
  }
  return fits && looked_up ? std::optional(s) : std::nullopt;
}

}  // namespace nabla::kernel_ir
