#include "ir/kernel_ir/contract.h"

#include <algorithm>

namespace nabla::kernel_ir {
namespace {
Expr strip_convert(Expr e) {
  while (e->kind == ExprKind::kCall && e->fn->name == "convert") e = e->args[0];
  return e;
}
bool moves_with(const Expr& load, int axis) {
  return std::any_of(load->args.begin(), load->args.end(), [&](const Expr& i) { return uses_axis(i, axis); });
}
}  // namespace

std::optional<Contraction> find_contraction(const Kernel& kernel) {
  const Let* let = nullptr;
  for (const Stmt& s : kernel.body)
    if (const Let* l = std::get_if<Let>(&s.node); l && l->contract) let = l;
  if (!let || let->combiner != Combiner::kSum || let->reduce.size() != 1) return std::nullopt;
  const Expr& e = let->expr;
  if (e->kind != ExprKind::kCall || e->fn->name != "mul") return std::nullopt;
  Contraction c;
  c.value = let->value;
  c.dtype = kernel.values[let->value].dtype;
  c.k = let->reduce[0];
  c.lhs = strip_convert(e->args[0]);
  c.rhs = strip_convert(e->args[1]);
  if (c.lhs->kind != ExprKind::kLoad || c.rhs->kind != ExprKind::kLoad) return std::nullopt;
  const std::vector<int>& axes = kernel.values[let->value].axes;
  if (axes.size() < 2) return std::nullopt;
  c.m = axes[axes.size() - 2];
  c.n = axes.back();
  c.batch.assign(axes.begin(), axes.end() - 2);
  if (!moves_with(c.lhs, c.m)) std::swap(c.lhs, c.rhs);
  bool fits = moves_with(c.lhs, c.m) && !moves_with(c.lhs, c.n) && moves_with(c.rhs, c.n) && !moves_with(c.rhs, c.m);
  return fits ? std::optional(c) : std::nullopt;
}

ContractPlan plan_contraction(const ir::Dim& rows, const ir::Dim& columns, int64_t tile_rows, int64_t tile_columns) {
  int64_t m = rows.bounds().max, n = columns.bounds().max;
  ContractPlan plan;
  plan.by_columns = n > 2 * m && m <= 256;
  int64_t size = plan.by_columns ? n : m, tile = plan.by_columns ? tile_columns : tile_rows;
  // An even number of blocks of at most 256, so that two threads are equally loaded.
  int64_t blocks = size <= 32 ? 1 : 2 * ((size + 511) / 512);
  plan.block = ((size + blocks - 1) / blocks + tile - 1) / tile * tile;
  plan.blocks = ir::Dim::ceildiv(plan.by_columns ? columns : rows, plan.block);
  return plan;
}

RegisterTile register_tile(int64_t n, int lanes, int vector_registers) {
  int vectors = n > lanes ? 2 : 1;
  return {vector_registers >= 32 ? 14 : 6, vectors};
}

}  // namespace nabla::kernel_ir
