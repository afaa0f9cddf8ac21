#include "passes/lower/byte_factors.h"

#include <map>

#include "ir/kernel_ir/product.h"
#include "passes/lower/schedule_cuda.h"

namespace nabla::passes {
namespace {

using kernel_ir::Expr;
using kernel_ir::ExprKind;
using kernel_ir::is_byte_float;

// The 8-bit floats that the tensor is, element by element, converted once or several times; -1: it is something else.
int bytes_of_factor(const Tensor& t) {
  if (t.kind != TensorKind::kDefinition || !t.formula.is_map() || t.fence) return -1;
  Expr e = t.formula.value;
  for (; kernel_ir::is_convert(e); e = e->args[0])
    if (!is_float(e->dtype)) return -1;
  std::vector<int> own(t.shape.size());
  for (size_t d = 0; d < own.size(); ++d) own[d] = static_cast<int>(d);
  bool same = e->kind == ExprKind::kLoad && !e->guard && is_byte_float(e->dtype) && e->args == kernel_ir::axes_as_indices(own);
  if (!same) return -1;
  // The other 8-bit format in between would lose values.
  for (Expr c = t.formula.value; c->kind == ExprKind::kCall; c = c->args[0])
    if (is_byte_float(c->dtype) && c->dtype != e->dtype) return -1;
  return e->ref;
}

// wgmma turns tiles of halves, but none of bytes: where k is not fastest in both factors of a large product, it is done sooner with
// converted ones.
bool halves_pay(const TensorGraph& graph, const Tensor& t, const ir::Target& target) {
  const Formula& f = t.formula;
  bool large = most(f.extents[f.rank - 2]) > kernel_ir::kWarpgroupRows && most(f.extents[f.rank - 1]) > kernel_ir::kWarpgroupRows &&
               most(f.extents[f.rank]) >= kernel_ir::kWarpgroupTileBytes;
  if (!has_warpgroups(target) || !large) return false;
  bool halves = true, turned = false;
  kernel_ir::visit(f.value, [&](const Expr& e) {
    if (e->kind != ExprKind::kLoad) return;
    halves &= bytes_of(graph.tensors[e->ref].dtype) == 2;
    turned |= e->args.empty() || e->args.back()->kind != ExprKind::kAxis || e->args.back()->ref != f.rank;
  });
  return halves && turned;
}

}  // namespace

void read_byte_factors(TensorGraph& graph, const ir::Target& target) {
  if (!target.cuda.multiplies_bytes()) return;
  for (Tensor& t : graph.tensors) {
    if (t.kind != TensorKind::kDefinition || !t.contraction || halves_pay(graph, t, target)) continue;
    std::map<int, int> bytes;  // by tensor that is loaded
    bool all = true;
    for (int u : loads_of(t.formula)) {
      bool narrow = is_byte_float(graph.tensors[u].dtype);
      bytes[u] = narrow ? u : bytes_of_factor(graph.tensors[u]);
      all &= bytes[u] >= 0 && (narrow || graph.tensors[u].dtype != DType::kF64);
    }
    if (!all) continue;
    t.formula = map_expressions(t.formula, [&](const Expr& e) {
      return kernel_ir::rewrite(e, [&](const Expr& x) {
        if (x->kind != ExprKind::kLoad || bytes.at(x->ref) == x->ref) return Expr();
        const int from = bytes.at(x->ref);
        return kernel_ir::convert(x->dtype, kernel_ir::load(graph.tensors[from].dtype, from, x->args));
      });
    });
  }
}

}  // namespace nabla::passes
