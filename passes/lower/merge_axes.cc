// Neighbouring axes that every access walks together become one.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "passes/lower/schedule_kernels.h"

namespace nabla::passes {

using namespace kernel_ir;  // NOLINT: this file rewrites kernel_ir

namespace {

// Tries to run axes a and b (neighbours in a `for` or a reduction) as one axis of extent(a) * extent(b): possible when
// every access moves through both together, in memory order, and nothing else looks at them.
class AxisMerger {
 public:
  AxisMerger(const Kernel& k, int a, int b) : k_(k), a_(a), b_(b) {}

  std::optional<Kernel> run() {
    Kernel out = k_;
    merged_ = static_cast<int>(out.axes.size());
    out.axes.push_back({k_.axes[a_].name, extent(a_) * extent(b_)});
    for (Stmt& s : out.body)
      if (!stmt(s)) return std::nullopt;
    for (auto [buffer, dim] : dim_) {
      if (dim < 0) continue;
      ir::Shape& shape = out.buffers[buffer].shape;
      shape[dim] = shape[dim] * shape[dim + 1];
      shape.erase(shape.begin() + dim + 1);
    }
    return out;
  }

 private:
  const ir::Dim& extent(int axis) const { return k_.axes[axis].extent; }
  bool uses(const Expr& e) const { return uses_axis(e, a_) || uses_axis(e, b_); }

  bool indices(int buffer, std::vector<Expr>& at) {
    int dim = -1;
    for (size_t d = 0; d + 1 < at.size(); ++d)
      if (at[d] == axis(a_) && at[d + 1] == axis(b_) && k_.buffers[buffer].shape[d] == extent(a_) &&
          k_.buffers[buffer].shape[d + 1] == extent(b_))
        dim = static_cast<int>(d);
    for (size_t d = 0; d < at.size(); ++d)
      if (uses(at[d]) && (dim < 0 || (static_cast<int>(d) != dim && static_cast<int>(d) != dim + 1))) return false;
    auto [it, fresh] = dim_.try_emplace(buffer, dim);
    if (!fresh && it->second != dim) return false;
    if (dim >= 0) {
      at[dim] = axis(merged_);
      at.erase(at.begin() + dim + 1);
    }
    return true;
  }
  bool expr(Expr& e) {
    if (!e) return true;
    bool ok = true;
    e = rewrite(e, [&](const Expr& x) -> Expr {
      if (x->kind != ExprKind::kLoad) return Expr();
      std::vector<Expr> at = x->args;
      ok &= indices(x->ref, at);
      if (!x->guard) return load(x->dtype, x->ref, at);
      Expr guard = x->guard, fill = x->fill;
      ok = ok && expr(guard) && expr(fill);
      return guarded_load(x->dtype, x->ref, at, guard, fill);
    });
    return ok && !uses(e);
  }
  // Puts the merged axis where both are; false where only one of them is, or another one is between them.
  bool together(std::vector<int>& axes) const {
    auto a = std::find(axes.begin(), axes.end(), a_), b = std::find(axes.begin(), axes.end(), b_);
    if (a == axes.end() && b == axes.end()) return true;
    if (a == axes.end() || b == axes.end() || b != a + 1) return false;
    *a = merged_;
    axes.erase(b);
    return true;
  }
  bool stmt(Stmt& s) {
    if (Let* let = std::get_if<Let>(&s.node))
      return !let->contract && k_.values[let->value].axes.empty() && together(let->reduce) && expr(let->expr);
    if (Store* store = std::get_if<Store>(&s.node))
      return store->axes.empty() && store->combiner == Combiner::kNone && indices(store->buffer, store->indices) &&
             expr(store->expr) && expr(store->guard);
    For* loop = std::get_if<For>(&s.node);
    return loop && together(loop->axes) &&
           std::all_of(loop->body.begin(), loop->body.end(), [&](Stmt& inner) { return stmt(inner); });
  }

  const Kernel& k_;
  int a_, b_, merged_ = -1;
  std::map<int, int> dim_;  // per buffer: the dimension that merges with the next; -1: not touched
};

// Axes that nothing uses any more leave the table.
void drop_unused_axes(Kernel& k) {
  std::vector<bool> used(k.axes.size(), false);
  auto mark = [&](const std::vector<int>& axes) {
    for (int a : axes) used[a] = true;
  };
  std::function<void(const Body&)> walk = [&](const Body& body) {
    for (const Stmt& s : body) {
      if (const Let* let = std::get_if<Let>(&s.node)) mark(let->reduce), mark(k.values[let->value].axes);
      if (const Store* store = std::get_if<Store>(&s.node)) mark(store->axes);
      if (const For* loop = std::get_if<For>(&s.node)) mark(loop->axes), walk(loop->body);
    }
  };
  walk(k.body);
  std::map<int, Expr> renumber;
  std::vector<int> place(k.axes.size(), -1);
  std::vector<Axis> kept;
  for (size_t a = 0; a < k.axes.size(); ++a)
    if (used[a]) {
      place[a] = static_cast<int>(kept.size());
      renumber[static_cast<int>(a)] = axis(place[a]);
      kept.push_back(k.axes[a]);
    }
  auto move = [&](std::vector<int>& axes) {
    for (int& a : axes) a = place[a];
  };
  std::function<void(Body&)> rename = [&](Body& body) {
    for (Stmt& s : body) {
      if (Let* let = std::get_if<Let>(&s.node)) move(let->reduce), let->expr = substitute_axes(let->expr, renumber);
      if (For* loop = std::get_if<For>(&s.node)) move(loop->axes), rename(loop->body);
      if (Store* store = std::get_if<Store>(&s.node)) {
        move(store->axes);
        store->expr = substitute_axes(store->expr, renumber);
        if (store->guard) store->guard = substitute_axes(store->guard, renumber);
        for (Expr& i : store->indices) i = substitute_axes(i, renumber);
      }
    }
  };
  rename(k.body);
  for (ValueInfo& v : k.values) move(v.axes);
  k.axes = std::move(kept);
}

// Axes that a `for` or a reduction walks one inside the other.
void add_neighbours(const Body& body, bool reduced, std::set<std::pair<int, int>>& out) {
  auto add = [&](const std::vector<int>& axes) {
    for (size_t i = 0; i + 1 < axes.size(); ++i) out.emplace(axes[i], axes[i + 1]);
  };
  for (const Stmt& s : body) {
    if (const Let* let = std::get_if<Let>(&s.node); let && reduced) add(let->reduce);
    if (const For* loop = std::get_if<For>(&s.node)) add(loop->axes), add_neighbours(loop->body, reduced, out);
  }
}

bool merge_two(Kernel& k, bool reduced) {
  std::set<std::pair<int, int>> neighbours;
  add_neighbours(k.body, reduced, neighbours);
  for (auto [a, b] : neighbours)
    if (std::optional<Kernel> merged = AxisMerger(k, a, b).run()) {
      k = std::move(*merged);
      return true;
    }
  return false;
}

}  // namespace

void merge_axes(Kernel& k, const ir::Target& target) {
  // Whether a sum walks its axes as one depends on what else the kernel computes, and its order on that.
  while (merge_two(k, !target.deterministic)) {
  }
  drop_unused_axes(k);
}

}  // namespace nabla::passes
