#include "passes/shard/parts.h"

namespace nabla::passes {
namespace {

// Dimension `from` moves to `to`; the others keep their order.
ir::Val moved(ir::Val v, int64_t from, int64_t to) {
  ir::Ints order = ir::iota_ints(v.rank());
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return from == to ? v : ir::transpose(v, order);
}

}  // namespace

ir::Val parts_first(ir::Val v, int64_t dim, int64_t count) {
  ir::Shape shape = v.shape();
  shape[dim] = ir::Dim::floordiv(shape[dim], count);
  shape.insert(shape.begin() + dim, count);
  return moved(ir::reshape(v, shape), dim, 0);
}

ir::Val parts_joined(ir::Val v, int64_t dim) {
  v = moved(v, 0, dim);
  ir::Shape shape = v.shape();
  shape[dim] = shape[dim] * shape[dim + 1];
  shape.erase(shape.begin() + dim + 1);
  return ir::reshape(v, shape);
}

}  // namespace nabla::passes
