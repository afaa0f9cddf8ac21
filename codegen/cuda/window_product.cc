#include "codegen/cuda/window_product.h"

#include <algorithm>

#include "codegen/cuda/team_printer.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file rewrites kernel_ir

namespace {

Expr load_of(Expr e) {
  while (e->kind == ExprKind::kCall && e->fn->name == "convert") e = e->args[0];
  return e->kind == ExprKind::kLoad ? e : Expr();
}
bool moves_with(const Expr& load, int axis) {
  bool does = load->guard && uses_axis(load->guard, axis);
  for (const Expr& i : load->args) does |= uses_axis(i, axis);
  return does;
}

// Axes of one matrix axis, in order; its extent is theirs together.
int join(Kernel& k, const std::string& name, const std::vector<int>& axes) {
  std::string free = name;
  while (std::any_of(k.axes.begin(), k.axes.end(), [&](const Axis& a) { return a.name == free; })) free += "x";
  ir::Dim extent = 1;
  for (int a : axes) extent = extent * k.axes[a].extent;
  k.axes.push_back({free, extent});
  return static_cast<int>(k.axes.size()) - 1;
}

// What follows the sum: numbers and plain stores of the loop's own element.
bool follows(const Kernel& k, const Stmt& s) {
  if (const Let* let = std::get_if<Let>(&s.node))
    return let->combiner == Combiner::kNone && k.values[let->value].axes.empty();
  const Store* store = std::get_if<Store>(&s.node);
  return store && store->axes.empty() && !store->guard && !may_meet(*store);
}

}  // namespace

std::unique_ptr<WindowProduct> find_window_product(const Kernel& k, const ir::Target& target) {
  if (k.procedure || k.body.size() != 1) return nullptr;
  const For* f = std::get_if<For>(&k.body[0].node);
  const Let* sum = f && !f->body.empty() ? std::get_if<Let>(&f->body[0].node) : nullptr;
  if (!sum || sum->combiner != Combiner::kSum || sum->reduce.empty() || !k.values[sum->value].axes.empty())
    return nullptr;
  const Expr& e = sum->expr;
  if (e->kind != ExprKind::kCall || e->fn->name != "mul") return nullptr;
  if (!std::all_of(f->body.begin() + 1, f->body.end(), [&](const Stmt& s) { return follows(k, s); })) return nullptr;
  Expr lhs = e->args[0], rhs = e->args[1];
  if (!load_of(lhs) || !load_of(rhs)) return nullptr;
  if (!moves_with(load_of(lhs), f->axes[0])) std::swap(lhs, rhs);
  const Expr a = load_of(lhs), b = load_of(rhs);
  std::vector<int> rows, columns;
  for (int axis : f->axes) {
    bool of_a = moves_with(a, axis), of_b = moves_with(b, axis);
    if (of_a == of_b || (of_a && !columns.empty())) return nullptr;  // rows first, as they lie in memory
    (of_a ? rows : columns).push_back(axis);
  }
  for (int axis : sum->reduce)
    if (!moves_with(a, axis) || !moves_with(b, axis)) return nullptr;
  if (rows.empty() || columns.empty()) return nullptr;

  auto out = std::make_unique<WindowProduct>();
  out->kernel = k;
  Contraction& c = out->c;
  c.m = join(out->kernel, "row", rows), c.n = join(out->kernel, "column", columns);
  c.k = join(out->kernel, "depth", sum->reduce);
  out->parts = {{c.m, rows}, {c.n, columns}, {c.k, sum->reduce}};
  c.value = sum->value, c.dtype = k.values[sum->value].dtype, c.lhs = a, c.rhs = b;
  out->lhs = lhs, out->rhs = rhs, out->let = *sum;
  Body body = f->body;
  std::get<Let>(body[0].node).contract = true;
  for (const Stmt& s : body)
    if (const Let* let = std::get_if<Let>(&s.node)) out->kernel.values[let->value].axes = {c.m, c.n};
  out->kernel.body = std::move(body);
  for (int axis : {c.m, c.n, c.k})
    if (out->kernel.axes[axis].extent.bounds().max >= 1 << 30) return nullptr;  // they are taken apart in 32 bits
  return fits_tensor_cores(out->product(target)) ? std::move(out) : nullptr;
}

}  // namespace nabla::codegen
