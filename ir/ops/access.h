// Shorthands for writing the access and the decomposition of structured and composite ops.
#pragma once

#include "ir/ops/common.h"

namespace nabla::ops {

/// Adds a reduction, or a map where there is nothing to reduce over. Its dtype is that of `value`.
int reduce_or_map(kernel_ir::Fragment& f, const char* name, std::vector<int> own, kernel_ir::Combiner combiner,
                  std::vector<int> over, kernel_ir::Expr value);
/// Adds a map of `value`'s dtype.
int define(kernel_ir::Fragment& f, const char* name, std::vector<int> own, kernel_ir::Expr value);
/// A scalar function of one operand.
kernel_ir::Expr unary(const char* fn, kernel_ir::Expr x);
/// The number `v` in the dtype of `like`.
kernel_ir::Expr number_like(const kernel_ir::Expr& like, double v);
/// An extent in a float dtype.
kernel_ir::Expr extent_as(DType dtype, const Dim& d);

/// `v` in its accumulation type: where decompositions compute.
Val wide(Val v);
/// An elementwise op of one or two operands.
Val apply(const char* op, Val x);
Val apply(const char* op, Val x, Val y);

/// Calls f(first, stride, count) for every row of `shape` along `axis`: its elements are first + i * stride.
template <class F>
void for_each_row(const Extents& shape, int64_t axis, F f) {
  int64_t stride = strides_of(shape)[axis];
  Extents starts = shape;
  starts[axis] = 1;
  for_each_index(starts, [&](const Extents& index, int64_t) { f(position_of(index, shape), stride, shape[axis]); });
}

}  // namespace nabla::ops
