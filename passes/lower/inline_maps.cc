#include "passes/lower/inline_maps.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ir/cost/least_work.h"
#include "passes/lower/fusion.h"

namespace nabla::passes {

using kernel_ir::Expr;
using kernel_ir::ExprKind;

namespace {

// Duplicating a tensor into several users, or into more evaluations than it has elements, must cost next to nothing.
constexpr int64_t kFreeCost = 2;
constexpr size_t kFreeLoads = 1;
// Where it may cost more: how many users compute it, and how often for each of its elements.
constexpr size_t kMostAgain = 8;
constexpr int64_t kSitesAgain = 8;
// Nodes of a formula, or of all that is taken into one. What is beyond it is stored: the host compiler's time would
// grow faster than the kernel, and one pass over memory is little beside so much arithmetic.
constexpr size_t kLargestFormula = 200;

class Inliner {
 public:
  Inliner(TensorGraph graph, const std::vector<bool>& stored, bool by_sizes, int64_t again_cost)
      : g_(std::move(graph)), stored_(stored), by_sizes_(by_sizes), again_cost_(again_cost) {
    inlined_.assign(g_.tensors.size(), false);
    scalar_.assign(g_.tensors.size(), false);
    readers_.resize(g_.tensors.size());
    taken_in_.assign(g_.tensors.size(), 0);
    for (size_t t = 0; t < g_.tensors.size(); ++t)
      for (int u : inputs(static_cast<int>(t))) readers_[u].push_back(static_cast<int>(t));
  }

  InlineResult run() {
    for (size_t i = 0; i < g_.tensors.size(); ++i) {
      Tensor& t = g_.tensors[i];
      if (t.kind == TensorKind::kView) follow_view(static_cast<int>(i));
      if (t.kind != TensorKind::kDefinition) continue;
      t.formula = map_expressions(t.formula, [&](const Expr& e) { return absorb(e); });
      if (!t.formula.is_map() || t.fence) continue;
      if (t.shape.empty() && !is_constant(t))
        scalar_[i] = true;
      else if (should_inline(static_cast<int>(i)))
        take_in(static_cast<int>(i));
    }
    return {std::move(g_), std::move(inlined_), std::move(scalar_)};
  }

 private:
  std::vector<int> inputs(int t) const {
    const Tensor& x = g_.tensors[t];
    if (x.kind == TensorKind::kView) return {x.base};
    return x.kind == TensorKind::kDefinition ? loads_of(x.formula) : std::vector<int>{};
  }
  static bool is_constant(const Tensor& t) { return t.formula.value->kind == ExprKind::kConst; }

  // The view's dimensions that each dimension of the base is split into, none for those of extent 1. Nothing: the view joins
  // dimensions, or cuts them elsewhere, so that positions in the base need divisions.
  static std::optional<std::vector<std::vector<int>>> split_dims(const ir::Shape& base, const ir::Shape& view) {
    std::vector<std::vector<int>> out;
    size_t v = 0;
    for (const ir::Dim& extent : base) {
      std::vector<int>& parts = out.emplace_back();
      for (ir::Dim joined = 1; !(joined == extent); ++v) {
        if (v == view.size() || (joined.is_static() && extent.is_static() && joined.value() > extent.value())) return std::nullopt;
        if (!view[v].is(1)) parts.push_back(static_cast<int>(v)), joined = joined * view[v];
      }
    }
    for (; v < view.size(); ++v)
      if (!view[v].is(1)) return std::nullopt;
    return out;
  }
  static Expr position(const ir::Shape& view, const std::vector<int>& parts) {
    if (parts.empty()) return kernel_ir::index(0);
    Expr out = kernel_ir::axis(parts[0]);
    for (size_t i = 1; i < parts.size(); ++i) out = out * kernel_ir::dim(view[parts[i]]) + kernel_ir::axis(parts[i]);
    return out;
  }

  // A view of an inlined tensor becomes a formula of its own.
  void follow_view(int v) {
    Tensor& view = g_.tensors[v];
    if (!inlined_[view.base]) return;
    const Tensor& base = g_.tensors[view.base];
    std::map<int, Expr> at;
    if (auto dims = split_dims(base.shape, view.shape)) {
      for (size_t d = 0; d < base.shape.size(); ++d) at[static_cast<int>(d)] = position(view.shape, (*dims)[d]);
    } else {
      Expr flat = kernel_ir::index(0);
      for (size_t d = 0; d < view.shape.size(); ++d)
        flat = flat * kernel_ir::dim(view.shape[d]) + kernel_ir::axis(static_cast<int>(d));
      ir::Dim inner = 1;
      for (int d = static_cast<int>(base.shape.size()) - 1; d >= 0; --d) {
        const ir::Dim& extent = base.shape[d];  // where it is 0 there is no element, and no division runs
        Expr p = inner.is(1) || inner.is(0) ? flat : kernel_ir::floordiv(flat, inner);
        at[d] = extent.is(1) || extent.is(0) ? kernel_ir::index(0) : d == 0 ? p : kernel_ir::mod(p, extent);
        inner = inner * extent;
      }
    }
    view.kind = TensorKind::kDefinition;
    view.formula.extents = view.shape;
    view.formula.rank = static_cast<int>(view.shape.size());
    view.formula.value = kernel_ir::substitute_axes(base.formula.value, at);
  }

  // The expression with every load of an inlined tensor replaced by what the tensor computes there.
  Expr absorb(const Expr& e) {
    return kernel_ir::rewrite(e, [&](const Expr& x) -> Expr {
      if (x->kind != ExprKind::kLoad || !inlined_[x->ref]) return Expr();
      const Formula& f = g_.tensors[x->ref].formula;
      std::map<int, Expr> at;
      for (size_t d = 0; d < x->args.size(); ++d) at[static_cast<int>(d)] = absorb(x->args[d]);
      Expr inside = kernel_ir::substitute_axes(f.value, at);
      if (!x->guard) return inside;
      Expr guard = absorb(x->guard), guarded = under_guard(inside, guard);
      if (is_zero(x->fill) && is_zero_unless_read(guarded)) return guarded;
      return kernel_ir::select(guard, guarded, absorb(x->fill));
    });
  }
  static bool is_zero(const Expr& e) { return e == kernel_ir::constant_int(e->dtype, 0); }
  // One element, perhaps converted, that is 0 where it is not read: nothing has to choose between it and 0. The factors of
  // a convolution are such elements, and stay recognisable as a product.
  static bool is_zero_unless_read(Expr e) {
    e = kernel_ir::without_converts(e);
    return e->kind == ExprKind::kLoad && e->guard && is_zero(e->fill);
  }
  // Loads inside a guarded value may only happen where the guard holds.
  static Expr under_guard(const Expr& e, const Expr& guard) {
    return kernel_ir::rewrite(e, [&](const Expr& x) -> Expr {
      if (x->kind != ExprKind::kLoad) return Expr();
      Expr zero = kernel_ir::constant_int(x->dtype, 0);
      if (!x->guard) return kernel_ir::guarded_load(x->dtype, x->ref, x->args, guard, zero);
      return kernel_ir::guarded_load(x->dtype, x->ref, x->args, kernel_ir::both(guard, x->guard), x->fill);
    });
  }

  static size_t nodes(const Expr& e) {
    size_t n = 0;
    kernel_ir::visit(e, [&](const Expr&) { ++n; });
    return n;
  }
  bool should_inline(int i) const {
    const Tensor& t = g_.tensors[i];
    const Formula& f = t.formula;
    size_t sources = loads_of(f).size();
    bool free = ir::arithmetic(f.value) <= kFreeCost;
    for (int r : readers_[i])
      if (g_.tensors[r].contraction) return false;  // a matrix product reads memory
    for (int r : readers_[i])                       // a copy is what keeps its operand apart from its result
      if (g_.tensors[r].fence && sources > 0) return false;
    if (sources == 0 && free) return true;  // iota and constants: nothing to store
    if (stored_[i] || readers_[i].empty()) return false;
    size_t size = nodes(f.value);
    for (int r : readers_[i])
      if (taken_in_[r] + size > kLargestFormula) return false;
    bool cheap = free && sources <= kFreeLoads;
    if (readers_[i].size() > 1) return (cheap && readers_[i].size() <= 4) || pays_again(t, readers_[i]);
    int reader = readers_[i][0];
    if (g_.tensors[reader].kind == TensorKind::kView) {
      // Through a reshape only where positions need no division, and the view has a map as its single reader.
      if (!single_map_behind(reader) || !split_dims(t.shape, g_.tensors[reader].shape) || ends_product(f)) return false;
      return cheap || !by_sizes_ || evaluations(g_.tensors[readers_[reader][0]].formula, reader) <= t.size() + t.size() / 64;
    }
    return cheap || (by_sizes_ && evaluations(g_.tensors[reader].formula, i) <= t.size() + t.size() / 64);
  }
  // A map that ends a product is computed where the product is, before it is stored.
  bool ends_product(const Formula& f) const {
    return std::ranges::any_of(loads_of(f), [&](int u) { return g_.tensors[storage_of(g_, u)].contraction; });
  }
  // How often the formula computes elements of the tensor.
  static int64_t evaluations(const Formula& user, int tensor) {
    return std::max(user.points(), results_of(user)) * sites(user, tensor);
  }
  // Do users that compute the map themselves read fewer bytes than the map has, as often as they would read it?
  bool pays_again(const Tensor& t, const std::vector<int>& readers) const {
    if (ir::arithmetic(t.formula.value) > again_cost_ || readers.size() > kMostAgain) return false;
    int64_t bytes = 0;
    for (int u : loads_of(t.formula)) bytes += g_.tensors[u].size() * bytes_of(g_.tensors[u].dtype);
    if (bytes > t.size() * bytes_of(t.dtype)) return false;
    int self = static_cast<int>(&t - g_.tensors.data());
    return std::all_of(readers.begin(), readers.end(), [&](int r) {
      const Tensor& x = g_.tensors[r];
      if (x.kind == TensorKind::kView) return !stored_[r] && split_dims(t.shape, x.shape).has_value();
      return evaluations(x.formula, self) <= kSitesAgain * t.size();
    });
  }
  void take_in(int i) {
    inlined_[i] = true;
    for (int r : readers_[i]) taken_in_[r] += nodes(g_.tensors[i].formula.value);
  }
  bool single_map_behind(int view) const {
    return !stored_[view] && readers_[view].size() == 1 &&
           g_.tensors[readers_[view][0]].kind == TensorKind::kDefinition &&
           g_.tensors[readers_[view][0]].formula.is_map() && !g_.tensors[readers_[view][0]].contraction &&
           !g_.tensors[readers_[view][0]].fence;
  }
  static int64_t results_of(const Formula& f) {
    return most(ir::Type(DType::kF32, {f.extents.begin(), f.extents.begin() + f.rank}).count());
  }
  // In how many places the formula reads the tensor.
  static int64_t sites(const Formula& f, int tensor) {
    int64_t n = 0;
    auto count = [&](const Expr& e) {
      if (e) kernel_ir::visit(e, [&](const Expr& x) { n += x->kind == ExprKind::kLoad && x->ref == tensor; });
    };
    count(f.value);
    count(f.update);
    for (const Expr& e : f.indices) count(e);
    return n;
  }

  TensorGraph g_;
  const std::vector<bool>& stored_;
  bool by_sizes_;
  int64_t again_cost_;
  std::vector<bool> inlined_, scalar_;
  std::vector<std::vector<int>> readers_;
  std::vector<size_t> taken_in_;  // by reader: nodes of what it takes in
};

}  // namespace

InlineResult inline_maps(TensorGraph graph, const std::vector<bool>& stored, bool by_sizes, int64_t again_cost) {
  return Inliner(std::move(graph), stored, by_sizes, again_cost).run();
}

}  // namespace nabla::passes
