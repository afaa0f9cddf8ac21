#include "ir/kernel_ir/stores.h"

#include <algorithm>

namespace nabla::kernel_ir {

bool is_plain_index(const Store& s, int axis_id) {
  return std::any_of(s.indices.begin(), s.indices.end(),
                     [&](const Expr& i) { return i->kind == ExprKind::kAxis && i->ref == axis_id; });
}
// A store whose place is looked up may meet a place again even without a combiner: the last one wins.
bool may_meet(const Store& s) {
  return s.combiner != Combiner::kNone ||
         std::any_of(s.indices.begin(), s.indices.end(), [](const Expr& i) { return !as_affine(i); });
}
bool meets_along(const Kernel& k, const Store& s, int axis_id) {
  if (may_meet(s)) return !is_plain_index(s, axis_id);
  bool named = k.axes[axis_id].extent.is(1);
  for (const Expr& i : s.indices)
    visit(i, [&](const Expr& x) { named |= x->kind == ExprKind::kAxis && x->ref == axis_id; });
  return !named;
}
bool has_atomic(const Kernel& k, const Store& s) {
  DType d = k.buffers[s.buffer].dtype;
  bool type = d == DType::kI32 || d == DType::kU32 || d == DType::kI64 || d == DType::kU64;
  return type && s.combiner != Combiner::kNone && s.combiner != Combiner::kProd;
}
void collect_stores(const Body& b, std::vector<const Store*>& out) {
  for (const Stmt& s : b) {
    if (const Store* store = std::get_if<Store>(&s.node)) out.push_back(store);
    if (const For* f = std::get_if<For>(&s.node)) collect_stores(f->body, out);
    if (const Loop* l = std::get_if<Loop>(&s.node)) collect_stores(l->body, out);
  }
}
bool walked_together(const Kernel& k, const For& f) {
  std::vector<const Store*> stores;
  collect_stores(f.body, stores);
  return std::any_of(stores.begin(), stores.end(), [&](const Store* s) {
    return std::any_of(f.axes.begin(), f.axes.end(), [&](int a) { return meets_along(k, *s, a); });
  });
}

std::vector<GridStatement> grid_statements(const Kernel& k) {
  std::vector<GridStatement> out;
  for (const Stmt& s : k.body) {
    if (std::holds_alternative<Let>(s.node)) continue;
    const For* f = std::get_if<For>(&s.node);
    const Store* lone = std::get_if<Store>(f ? (f->body.size() == 1 ? &f->body[0].node : &s.node) : &s.node);
    if (!lone) {
      NABLA_CHECK(f, "kernel @{}: an ordered loop is no grid of its own", k.name);
      out.push_back({f->axes, f->body});
      continue;
    }
    // A lone store: its own axes are as good as those of the loop around it.
    std::vector<int> axes = f ? f->axes : std::vector<int>();
    axes.insert(axes.end(), lone->axes.begin(), lone->axes.end());
    Store store = *lone;
    store.axes.clear();
    Body body;
    body.push_back({std::move(store)});
    out.push_back({std::move(axes), std::move(body)});
  }
  return out;
}

}  // namespace nabla::kernel_ir
