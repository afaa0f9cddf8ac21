#include "ir/kernel_ir/expr.h"

#include <bit>
#include <unordered_map>

#include "runtime/base/check.h"
#include "runtime/base/literal.h"

namespace nabla::kernel_ir {
namespace {

size_t combine(size_t seed, size_t v) { return seed ^ (v + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2)); }

size_t hash_of(const ExprNode& n) {
  size_t h = combine(static_cast<size_t>(n.kind), static_cast<size_t>(n.dtype));
  h = combine(h, std::bit_cast<uint64_t>(n.number));
  h = combine(h, static_cast<size_t>(n.integer));
  h = combine(h, static_cast<size_t>(n.ref));
  h = combine(h, reinterpret_cast<size_t>(n.fn));
  if (n.kind == ExprKind::kDim) h = combine(h, std::hash<std::string>()(n.dim.str()));
  for (const Expr& a : n.args) h = combine(h, a->hash);
  if (n.guard) h = combine(combine(h, n.guard->hash), n.fill->hash);
  return h;
}

bool is_const(const Expr& e) { return e->kind == ExprKind::kConst; }
bool is_int(const Expr& e, int64_t v) { return is_const(e) && e->dtype == DType::kI64 && e->integer == v; }
bool is_index(const Expr& e) { return e->dtype == DType::kI64; }

// Exact identities of index arithmetic; float expressions are left as they are written.
Expr simplify_index(std::string_view fn, const std::vector<Expr>& a) {
  if (a.size() != 2 || !is_index(a[0]) || !is_index(a[1])) return {};
  auto is_size = [](const Expr& e) { return is_const(e) || e->kind == ExprKind::kDim; };
  if (is_size(a[0]) && is_size(a[1])) {  // both constant: folded already
    auto size = [](const Expr& e) { return is_const(e) ? ir::Dim(e->integer) : e->dim; };
    if (fn == "add") return dim(size(a[0]) + size(a[1]));
    if (fn == "sub") return dim(size(a[0]) - size(a[1]));
    if (fn == "mul") return dim(size(a[0]) * size(a[1]));
  }
  if (fn == "add") {
    if (is_int(a[0], 0)) return a[1];
    if (is_int(a[1], 0)) return a[0];
  } else if (fn == "sub") {
    if (is_int(a[1], 0)) return a[0];
    if (a[0] == a[1]) return index(0);
  } else if (fn == "mul") {
    if (is_int(a[0], 0) || is_int(a[1], 0)) return index(0);
    if (is_int(a[0], 1)) return a[1];
    if (is_int(a[1], 1)) return a[0];
  } else if (fn == "floordiv" && is_int(a[1], 1)) {
    return a[0];
  } else if (fn == "mod" && is_int(a[1], 1)) {
    return index(0);
  }
  return {};
}

Expr make_call(DType result, const ScalarFn* fn, std::vector<Expr> args) {
  ExprNode n{ExprKind::kCall, result};
  n.fn = fn;
  n.args = std::move(args);
  return make(std::move(n));
}

// Integer calls on constants fold; float arithmetic is left to the target, which decides its rounding.
Expr fold_ints(DType result, const ScalarFn* fn, const std::vector<Expr>& args) {
  if (!fn->eval_int || args.empty()) return {};
  std::vector<int64_t> x;
  for (const Expr& a : args) {
    if (!is_const(a) || is_float(a->dtype)) return {};
    x.push_back(a->integer);
  }
  return constant_int(result, fn->eval_int(args[0]->dtype, x));
}

}  // namespace

bool Expr::operator==(const Expr& other) const {
  if (node_ == other.node_) return true;
  if (!node_ || !other.node_ || node_->hash != other.node_->hash) return false;
  const ExprNode &a = *node_, &b = *other.node_;
  return a.kind == b.kind && a.dtype == b.dtype &&
         std::bit_cast<uint64_t>(a.number) == std::bit_cast<uint64_t>(b.number) && a.integer == b.integer &&
         a.dim == b.dim && a.ref == b.ref && a.fn == b.fn && a.args == b.args && a.guard == b.guard && a.fill == b.fill;
}

Expr make(ExprNode node) {
  node.hash = hash_of(node);
  return Expr(std::make_shared<const ExprNode>(std::move(node)));
}

Expr constant(DType dtype, double v) {
  if (!is_float(dtype)) return constant_int(dtype, static_cast<int64_t>(v));
  ExprNode n{ExprKind::kConst, dtype};
  n.number = round_to(dtype, v);
  return make(std::move(n));
}

Expr constant_int(DType dtype, int64_t v) {
  if (is_float(dtype)) return constant(dtype, static_cast<double>(v));
  ExprNode n{ExprKind::kConst, dtype};
  int64_t cell = 0;
  set_int(dtype, &cell, 0, v);  // wraps to the dtype's range
  n.integer = get_int(dtype, &cell, 0);
  return make(std::move(n));
}

Expr index(int64_t v) { return constant_int(DType::kI64, v); }

Expr dim(const ir::Dim& d) {
  if (d.is_static()) return index(d.value());
  ExprNode n{ExprKind::kDim, DType::kI64};
  n.dim = d;
  return make(std::move(n));
}

Expr axis(int id) {
  ExprNode n{ExprKind::kAxis, DType::kI64};
  n.ref = id;
  return make(std::move(n));
}

Expr load(DType dtype, int tensor, std::vector<Expr> indices) {
  ExprNode n{ExprKind::kLoad, dtype};
  n.ref = tensor;
  n.args = std::move(indices);
  return make(std::move(n));
}

Expr guarded_load(DType dtype, int tensor, std::vector<Expr> indices, Expr guard, Expr fill) {
  if (is_const(guard)) return guard->integer ? load(dtype, tensor, std::move(indices)) : fill;
  NABLA_CHECK(fill->dtype == dtype && guard->dtype == DType::kBool, "guarded load of {}", name_of(dtype));
  ExprNode n{ExprKind::kLoad, dtype};
  n.ref = tensor;
  n.args = std::move(indices);
  n.guard = std::move(guard);
  n.fill = std::move(fill);
  return make(std::move(n));
}

Expr value(DType dtype, int id, std::vector<Expr> indices) {
  ExprNode n{ExprKind::kValue, dtype};
  n.ref = id;
  n.args = std::move(indices);
  return make(std::move(n));
}

Expr call(std::string_view name, std::vector<Expr> args) {
  const ScalarFn* fn = find_scalar(name);
  NABLA_CHECK(fn != nullptr, "no scalar function {}", name);
  NABLA_CHECK(fn->result != ResultKind::kFirst, "{} needs a result dtype", name);
  NABLA_CHECK(static_cast<int>(args.size()) == fn->arity, "{} of {} operands", name, args.size());
  for (const Expr& a : args)
    NABLA_CHECK(a->dtype == args[0]->dtype, "{} of {} and {}", name, name_of(args[0]->dtype), name_of(a->dtype));
  DType result = fn->result == ResultKind::kBool ? DType::kBool : args[0]->dtype;
  if (Expr folded = fold_ints(result, fn, args)) return folded;
  if (Expr simple = simplify_index(name, args)) return simple;
  if (name == "and" && result == DType::kBool) {  // of integers it takes some bits
    if (is_const(args[0])) return args[0]->integer ? args[1] : args[0];
    if (is_const(args[1])) return args[1]->integer ? args[0] : args[1];
  }
  return make_call(result, fn, std::move(args));
}

Expr call_as(DType result, std::string_view name, std::vector<Expr> args) {
  const ScalarFn* fn = find_scalar(name);
  NABLA_CHECK(fn != nullptr && static_cast<int>(args.size()) == fn->arity, "scalar function {}", name);
  return make_call(result, fn, std::move(args));
}

Expr convert(DType to, Expr e) {
  if (e->dtype == to) return e;
  if (is_const(e)) {
    if (!is_float(e->dtype) && !is_float(to))
      return to == DType::kBool ? constant_int(to, e->integer != 0) : constant_int(to, e->integer);
    Literal x = is_float(e->dtype) ? Literal::scalar(e->dtype, e->number) : Literal::scalar_int(e->dtype, e->integer);
    Literal y = x.converted(to);
    return is_float(to) ? constant(to, y.get(0)) : constant_int(to, y.get_i(0));
  }
  return call_as(to, "convert", {std::move(e)});
}

bool is_convert(const Expr& e) { return e->kind == ExprKind::kCall && e->fn->name == "convert"; }

Expr without_converts(Expr e) {
  while (is_convert(e)) e = e->args[0];
  return e;
}

Expr select(Expr predicate, Expr on_true, Expr on_false) {
  NABLA_CHECK(predicate->dtype == DType::kBool && on_true->dtype == on_false->dtype, "select of {} and {}",
              name_of(on_true->dtype), name_of(on_false->dtype));
  if (is_const(predicate)) return predicate->integer ? on_true : on_false;
  if (on_true == on_false) return on_true;
  DType dtype = on_true->dtype;
  return call_as(dtype, "select", {std::move(predicate), std::move(on_true), std::move(on_false)});
}

Expr floordiv(Expr a, const ir::Dim& b) { return call("floordiv", {std::move(a), dim(b)}); }
Expr mod(Expr a, const ir::Dim& b) { return call("mod", {std::move(a), dim(b)}); }

namespace {
Expr rebuild(const Expr& e, std::vector<Expr> args, Expr guard, Expr fill) {
  switch (e->kind) {
    case ExprKind::kLoad:
      return guard ? guarded_load(e->dtype, e->ref, std::move(args), guard, fill)
                   : load(e->dtype, e->ref, std::move(args));
    case ExprKind::kValue:
      return value(e->dtype, e->ref, std::move(args));
    case ExprKind::kCall:
      if (e->fn->name == "select") return select(args[0], args[1], args[2]);
      if (is_convert(e)) return convert(e->dtype, args[0]);
      return e->fn->result == ResultKind::kFirst ? call_as(e->dtype, e->fn->name, std::move(args))
                                                 : call(e->fn->name, std::move(args));
    default:
      return e;
  }
}

// What is known of nodes of an expression. Nearly all expressions are small: a list is faster than a table then.
template <class Value>
class ByNode {
 public:
  /// Null: nothing is known.
  const Value* find(const ExprNode* node) const {
    for (const auto& [known, value] : few_)
      if (known == node) return &value;
    auto it = many_.find(node);
    return it == many_.end() ? nullptr : &it->second;
  }
  void add(const ExprNode* node, Value value) {
    if (few_.empty()) few_.reserve(kFew);
    if (few_.size() < kFew)
      few_.emplace_back(node, std::move(value));
    else
      many_.emplace(node, std::move(value));
  }

 private:
  static constexpr size_t kFew = 16;
  std::vector<std::pair<const ExprNode*, Value>> few_;
  std::unordered_map<const ExprNode*, Value> many_;
};

class Rewriter {
 public:
  explicit Rewriter(const std::function<Expr(const Expr&)>& f) : f_(f) {}
  Expr run(const Expr& e) {
    bool shared = !e.only_holder();
    if (const Expr* known = shared ? done_.find(e.id()) : nullptr) return *known;
    Expr out = f_(e);
    if (!out) {
      bool changed = false;
      std::vector<Expr> args;
      args.reserve(e->args.size());
      for (const Expr& a : e->args) {
        args.push_back(run(a));
        changed |= args.back().id() != a.id();
      }
      Expr guard = e->guard ? run(e->guard) : Expr(), fill = e->fill ? run(e->fill) : Expr();
      changed |= guard.id() != e->guard.id() || fill.id() != e->fill.id();
      out = changed ? rebuild(e, std::move(args), guard, fill) : e;
    }
    if (shared) done_.add(e.id(), out);
    return out;
  }

 private:
  const std::function<Expr(const Expr&)>& f_;
  ByNode<Expr> done_;
};

void visit_once(const Expr& e, const std::function<void(const Expr&)>& f, ByNode<bool>& seen) {
  if (!e.only_holder()) {
    if (seen.find(e.id())) return;
    seen.add(e.id(), true);
  }
  for (const Expr& a : e->args) visit_once(a, f, seen);
  if (e->guard) visit_once(e->guard, f, seen), visit_once(e->fill, f, seen);
  f(e);
}
}  // namespace

Expr rewrite(const Expr& e, const std::function<Expr(const Expr&)>& f) { return Rewriter(f).run(e); }

Expr substitute_axes(const Expr& e, const std::map<int, Expr>& replacement) {
  return rewrite(e, [&](const Expr& x) {
    if (x->kind != ExprKind::kAxis) return Expr();
    auto it = replacement.find(x->ref);
    return it == replacement.end() ? Expr() : it->second;
  });
}

void visit(const Expr& e, const std::function<void(const Expr&)>& f) {
  ByNode<bool> seen;
  visit_once(e, f, seen);
}

bool uses_axis(const Expr& e, int axis) {
  bool found = false;
  visit(e, [&](const Expr& x) { found |= x->kind == ExprKind::kAxis && x->ref == axis; });
  return found;
}

ir::Dim Affine::of(int axis) const {
  auto it = coefficients.find(axis);
  return it == coefficients.end() ? ir::Dim(0) : it->second;
}

std::optional<Affine> as_affine(const Expr& e) {
  if (is_const(e) && !is_float(e->dtype)) return Affine{e->integer, {}};
  if (e->kind == ExprKind::kDim) return Affine{e->dim, {}};
  if (e->kind == ExprKind::kAxis) return Affine{0, {{e->ref, 1}}};
  if (e->kind != ExprKind::kCall || e->args.size() != 2) return std::nullopt;
  std::string_view fn = e->fn->name;
  if (fn != "add" && fn != "sub" && fn != "mul") return std::nullopt;
  std::optional<Affine> a = as_affine(e->args[0]), b = as_affine(e->args[1]);
  if (!a || !b) return std::nullopt;
  if (fn == "mul") {
    if (!a->coefficients.empty() && !b->coefficients.empty()) return std::nullopt;
    if (a->coefficients.empty()) std::swap(a, b);
    ir::Dim factor = b->constant;
    Affine out{a->constant * factor, {}};
    if (!factor.is(0))
      for (const auto& [id, c] : a->coefficients) out.coefficients[id] = c * factor;
    return out;
  }
  ir::Dim sign(fn == "add" ? 1 : -1);
  a->constant = a->constant + sign * b->constant;
  for (const auto& [id, c] : b->coefficients) {
    ir::Dim sum = a->of(id) + sign * c;
    if (sum.is(0))
      a->coefficients.erase(id);
    else
      a->coefficients[id] = sum;
  }
  return a;
}

}  // namespace nabla::kernel_ir
