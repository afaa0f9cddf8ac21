#include "ir/ops/access.h"

namespace nabla::ops {

using kernel_ir::Expr;

int reduce_or_map(kernel_ir::Fragment& f, const char* name, std::vector<int> own, kernel_ir::Combiner combiner,
                  std::vector<int> over, Expr value) {
  if (over.empty()) return define(f, name, std::move(own), std::move(value));
  DType dtype = value->dtype;
  return f.reduce(name, dtype, std::move(own), combiner, std::move(over), std::move(value));
}

int define(kernel_ir::Fragment& f, const char* name, std::vector<int> own, Expr value) {
  DType dtype = value->dtype;
  return f.map(name, dtype, std::move(own), std::move(value));
}

Expr unary(const char* fn, Expr x) { return kernel_ir::call(fn, {std::move(x)}); }
Expr number_like(const Expr& like, double v) { return kernel_ir::constant(like->dtype, v); }
Expr extent_as(DType dtype, const Dim& d) { return kernel_ir::convert(dtype, kernel_ir::dim(d)); }

Val wide(Val v) { return convert(v, accumulation_type(v.dtype())); }
Val apply(const char* op, Val x) { return x.b->op(op, {x}); }
Val apply(const char* op, Val x, Val y) { return x.b->op(op, {x, y}); }

}  // namespace nabla::ops
