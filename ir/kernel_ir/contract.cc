#include "ir/kernel_ir/contract.h"

#include <algorithm>

namespace nabla::kernel_ir {
namespace {
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
  c.lhs = without_converts(e->args[0]);
  c.rhs = without_converts(e->args[1]);
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

int vector_elements(const Kernel& kernel, int vector_bytes) {
  auto wide = [](const Buffer& b) { return bytes_of(b.dtype) == 8; };
  bool any = std::any_of(kernel.buffers.begin(), kernel.buffers.end(), wide);
  for (const ValueInfo& v : kernel.values) any |= v.dtype == DType::kF64;
  return vector_bytes / (any ? 8 : 4);
}

ContractPlan plan_contraction(const ir::Dim& rows, const ir::Dim& columns, int lanes, int vector_registers) {
  int64_t m = std::max<int64_t>(rows.bounds().max, 1), n = std::max<int64_t>(columns.bounds().max, 1);
  ContractPlan plan;
  plan.tile_vectors = n > lanes ? 2 : 1;
  plan.by_columns = n >= 2 * m && m <= 256;
  int64_t size = plan.by_columns ? n : m;
  // An even number of blocks of at most 256, so that two threads are equally loaded.
  int64_t blocks = size <= 32 ? 1 : 2 * ((size + 511) / 512);
  int64_t share = (size + blocks - 1) / blocks;
  // The most that registers hold, or fewer where a block's rows are shared out more evenly by that.
  int64_t most_rows = vector_registers >= 32 ? 14 : 6, rows_in_block = plan.by_columns ? m : share;
  int64_t tiles = (rows_in_block + most_rows - 1) / most_rows;
  plan.tile_rows = static_cast<int>(rows.is_static() ? (rows_in_block + tiles - 1) / tiles : most_rows);
  int64_t tile = plan.by_columns ? plan.tile_vectors * lanes : plan.tile_rows;
  plan.block = (share + tile - 1) / tile * tile;
  plan.blocks = ir::Dim::ceildiv(plan.by_columns ? columns : rows, plan.block);
  return plan;
}

}  // namespace nabla::kernel_ir
