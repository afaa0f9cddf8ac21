#include "ir/kernel_ir/window_product.h"

#include <algorithm>
#include <functional>
#include <set>

#include "ir/kernel_ir/stores.h"

namespace nabla::kernel_ir {
namespace {

Expr load_of(Expr e) {
  e = without_converts(e);
  return e->kind == ExprKind::kLoad ? e : Expr();
}
// Without its guard. Conversions around it stay.
Expr unguarded(const Expr& e) {
  return rewrite(e, [](const Expr& x) {
    return x->kind == ExprKind::kLoad ? load(x->dtype, x->ref, x->args) : Expr();
  });
}
// Both factors have the same guard and are 0 outside of it. The factor whose indices do not use all axes of the guard is
// read without it: it is multiplied by the other factor, which is 0. An infinity in it then gives NaN, as in cuDNN.
void drop_second_guard(const Kernel& k, Expr& lhs, Expr& rhs) {
  const Expr a = load_of(lhs), b = load_of(rhs);
  if (!a->guard || !b->guard || !(a->guard == b->guard)) return;
  for (Expr* factor : {&lhs, &rhs}) {
    const Expr read = load_of(*factor);
    for (int axis = 0; axis < static_cast<int>(k.axes.size()); ++axis) {
      bool places = std::any_of(read->args.begin(), read->args.end(), [&](const Expr& i) { return uses_axis(i, axis); });
      if (uses_axis(read->guard, axis) && !places) {
        *factor = unguarded(*factor);
        return;
      }
    }
  }
}
bool moves_along(const Expr& load, int axis) {
  bool does = load->guard && uses_axis(load->guard, axis);
  for (const Expr& i : load->args) does |= uses_axis(i, axis);
  return does;
}

int add_axis(Kernel& k, const std::string& name, const ir::Dim& extent) {
  std::string free = name;
  while (std::any_of(k.axes.begin(), k.axes.end(), [&](const Axis& a) { return a.name == free; })) free += "x";
  k.axes.push_back({free, extent});
  return static_cast<int>(k.axes.size()) - 1;
}
// Axes of one matrix axis, in order; its extent is theirs together.
int join(Kernel& k, const std::string& name, const std::vector<int>& axes) {
  ir::Dim extent = 1;
  for (int a : axes) extent = extent * k.axes[a].extent;
  return add_axis(k, name, extent);
}

// What follows the sum: numbers and plain stores of the loop's own element.
bool follows(const Kernel& k, const Stmt& s) {
  if (const Let* let = std::get_if<Let>(&s.node))
    return let->combiner == Combiner::kNone && k.values[let->value].axes.empty();
  const Store* store = std::get_if<Store>(&s.node);
  return store && store->axes.empty() && !store->guard && !may_meet(*store);
}

// floordiv(axis, d) and mod(axis, d) with a number d.
std::optional<int64_t> divisor(const Expr& e, int axis) {
  bool call = e->kind == ExprKind::kCall && (e->fn->name == "floordiv" || e->fn->name == "mod");
  bool does = call && e->args[0]->kind == ExprKind::kAxis && e->args[0]->ref == axis;
  return does && e->args[1]->kind == ExprKind::kConst ? std::optional(e->args[1]->integer) : std::nullopt;
}
void each_expr(Body& body, const std::function<void(Expr&)>& f) {
  for (Stmt& s : body) {
    if (Let* let = std::get_if<Let>(&s.node)) f(let->expr);
    if (Store* store = std::get_if<Store>(&s.node)) {
      f(store->expr);
      for (Expr& i : store->indices) f(i);
    }
  }
}
// An axis that is divided by one number becomes two, for quotient and remainder.
void split_divided_axes(Kernel& k, For& loop) {
  for (size_t at = 0; at < loop.axes.size(); ++at) {
    int divided = loop.axes[at];
    std::set<int64_t> by;
    auto look = [&](const Expr& e) {
      if (auto d = divisor(e, divided)) by.insert(*d);
    };
    each_expr(loop.body, [&](Expr& e) { visit(e, look); });
    const ir::Dim extent = k.axes[divided].extent;
    if (by.size() != 1 || !extent.is_static() || *by.begin() < 1 || extent.value() % *by.begin() != 0) continue;
    int64_t d = *by.begin();
    int quotient = add_axis(k, "group", extent.value() / d), remainder = add_axis(k, "member", d);
    Expr whole = axis(quotient) * index(d) + axis(remainder);
    each_expr(loop.body, [&](Expr& e) {
      e = rewrite(e, [&](const Expr& x) {
        if (divisor(x, divided)) return x->fn->name == "mod" ? axis(remainder) : axis(quotient);
        return x->kind == ExprKind::kAxis && x->ref == divided ? whole : Expr();
      });
    });
    loop.axes[at] = quotient;
    loop.axes.insert(loop.axes.begin() + static_cast<int64_t>(++at), remainder);
  }
}

}  // namespace

std::unique_ptr<WindowProduct> find_window_product(const Kernel& kernel) {
  if (kernel.procedure || kernel.body.size() != 1 || !std::holds_alternative<For>(kernel.body[0].node)) return nullptr;
  auto out = std::make_unique<WindowProduct>();
  Kernel& k = out->kernel;
  k = kernel;
  For loop = std::get<For>(k.body[0].node);
  const Let* sum = loop.body.empty() ? nullptr : std::get_if<Let>(&loop.body[0].node);
  if (!sum || sum->combiner != Combiner::kSum || sum->reduce.empty() || !k.values[sum->value].axes.empty())
    return nullptr;
  if (sum->expr->kind != ExprKind::kCall || sum->expr->fn->name != "mul") return nullptr;
  if (!std::all_of(loop.body.begin() + 1, loop.body.end(), [&](const Stmt& s) { return follows(k, s); }))
    return nullptr;
  split_divided_axes(k, loop);
  Expr lhs = sum->expr->args[0], rhs = sum->expr->args[1];
  if (!load_of(lhs) || !load_of(rhs)) return nullptr;
  drop_second_guard(k, lhs, rhs);
  auto first = std::find_if(loop.axes.begin(), loop.axes.end(),
                            [&](int axis) { return moves_along(load_of(lhs), axis) != moves_along(load_of(rhs), axis); });
  if (first == loop.axes.end()) return nullptr;
  if (!moves_along(load_of(lhs), *first)) std::swap(lhs, rhs);
  const Expr a = load_of(lhs), b = load_of(rhs);
  std::vector<int> rows, columns, both;
  for (int axis : loop.axes) {
    bool of_a = moves_along(a, axis), of_b = moves_along(b, axis);
    if ((!of_a && !of_b) || (of_a && !columns.empty())) return nullptr;  // rows first, as they lie in memory
    (!of_b ? rows : of_a ? both : columns).push_back(axis);
  }
  for (int axis : sum->reduce)
    if (!moves_along(a, axis) || !moves_along(b, axis)) return nullptr;
  if (rows.empty() || columns.empty()) return nullptr;

  Contraction& c = out->c;
  c.m = join(k, "row", rows), c.n = join(k, "column", columns), c.k = join(k, "depth", sum->reduce);
  out->parts = {{c.m, rows}, {c.n, columns}, {c.k, sum->reduce}};
  c.value = sum->value, c.dtype = k.values[sum->value].dtype, c.lhs = a, c.rhs = b, c.batch = both;
  out->lhs = lhs, out->rhs = rhs, out->let = *sum;
  k.body = loop.body;
  std::get<Let>(k.body[0].node).contract = true;
  for (const Stmt& s : k.body)
    if (const Let* let = std::get_if<Let>(&s.node)) k.values[let->value].axes = {c.m, c.n};
  for (int axis : {c.m, c.n, c.k})
    if (k.axes[axis].extent.bounds().max >= 1 << 30) return nullptr;  // they are taken apart in 32 bits
  return out;
}

}  // namespace nabla::kernel_ir
