#include "ir/kernel_ir/packs.h"

#include <algorithm>

#include "ir/kernel_ir/stores.h"

namespace nabla::kernel_ir {

std::optional<int64_t> stride_along(const std::vector<Expr>& indices, const ir::Shape& shape, int axis,
                                    const std::function<bool(const Expr&)>& moves) {
  ir::Dim stride = 1, total = 0;
  for (int d = static_cast<int>(indices.size()) - 1; d >= 0; --d) {
    if (moves(indices[d])) {
      std::optional<Affine> affine = as_affine(indices[d]);
      if (affine) {
        total = total + stride * affine->of(axis);
      } else {
        // Terms without the axis may be anything: only the axis' own part must be linear.
        const Expr& e = indices[d];
        bool sum = e->kind == ExprKind::kCall && e->fn->name == "add" && moves(e->args[0]) != moves(e->args[1]);
        const Expr& moving = sum && moves(e->args[1]) ? e->args[1] : e->args[0];
        std::optional<Affine> part = sum ? as_affine(moving) : std::nullopt;
        if (!part) return std::nullopt;
        total = total + stride * part->of(axis);
      }
    }
    stride = stride * shape[d];
  }
  return total.is_static() ? std::optional(total.value()) : std::nullopt;
}

std::optional<Affine> flat_offset(const std::vector<Expr>& at, const ir::Shape& shape) {
  Expr flat = index(0);
  for (size_t d = 0; d < at.size(); ++d) flat = flat * dim(shape[d]) + at[d];
  std::optional<Affine> affine = as_affine(flat);
  if (!affine || !affine->constant.is_static()) return std::nullopt;
  for (const auto& [axis, c] : affine->coefficients)
    if (!c.is_static()) return std::nullopt;
  return affine;
}
bool packs_divide(const Affine& a, int lane, int64_t width) {
  if (a.constant.value() % width != 0) return false;
  return std::all_of(a.coefficients.begin(), a.coefficients.end(),
                     [&](const auto& c) { return c.first == lane || c.second.value() % width == 0; });
}
bool walks(const Affine& a, int lane) { return a.of(lane).is(1); }

bool is_pointwise(const Kernel& k, const Body& body) {
  std::vector<int> stored;
  for (const Stmt& s : body) {
    const Let* let = std::get_if<Let>(&s.node);
    const Store* store = std::get_if<Store>(&s.node);
    if (!let && !store) return false;
    if (let && (let->combiner != Combiner::kNone || !k.values[let->value].axes.empty())) return false;
    if (store && (store->guard || !store->axes.empty() || may_meet(*store))) return false;
    bool rereads = false;
    visit(let ? let->expr : store->expr, [&](const Expr& x) {
      rereads |= x->kind == ExprKind::kLoad && std::find(stored.begin(), stored.end(), x->ref) != stored.end();
    });
    if (rereads) return false;
    if (store && std::find(stored.begin(), stored.end(), store->buffer) != stored.end()) return false;
    if (store) stored.push_back(store->buffer);
  }
  return !stored.empty();
}

Packs find_packs(const Kernel& k, const std::vector<int>& axes, const Body& body) {
  Packs none;
  if (axes.empty() || !is_pointwise(k, body)) return none;
  int lane = axes.back();
  std::vector<std::pair<int, Affine>> moving;
  bool fits = k.axes[lane].extent.is_static();
  auto access = [&](const std::vector<Expr>& at, int buffer, bool must) {
    std::optional<Affine> flat = flat_offset(at, k.buffers[buffer].shape);
    if (flat && walks(*flat, lane))
      moving.emplace_back(buffer, *flat);
    else
      fits &= !must;
  };
  double points = 1;
  for (int a : axes) points *= static_cast<double>(k.axes[a].extent.bounds().max);
  for (const Stmt& s : body) {
    const Let* let = std::get_if<Let>(&s.node);
    const Store* store = std::get_if<Store>(&s.node);
    if (store) access(store->indices, store->buffer, true);
    visit(let ? let->expr : store->expr, [&](const Expr& x) {
      if (x->kind == ExprKind::kLoad && !x->guard) access(x->args, x->ref, false);
    });
  }
  if (!fits || moving.empty() || points >= 1 << 30) return none;
  int widest = 1;
  for (const auto& [buffer, flat] : moving) widest = std::max(widest, bytes_of(k.buffers[buffer].dtype));
  Packs packs{16 / widest, {}};
  bool whole = packs.width > 1 && k.axes[lane].extent.value() % packs.width == 0 &&
               std::all_of(moving.begin(), moving.end(),
                           [&](const auto& m) { return packs_divide(m.second, lane, packs.width); });
  if (!whole) return none;
  for (const auto& [buffer, flat] : moving)
    if (std::find(packs.buffers.begin(), packs.buffers.end(), buffer) == packs.buffers.end())
      packs.buffers.push_back(buffer);
  return packs;
}

}  // namespace nabla::kernel_ir
