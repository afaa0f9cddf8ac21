// Stores of what is one thing here and another there along an axis, as of a concatenate, become a store for each part.
#include <algorithm>
#include <optional>
#include <set>

#include "ir/kernel_ir/axis_step.h"
#include "passes/lower/lane_axis.h"
#include "passes/lower/schedule_kernels.h"

namespace nabla::passes {

using namespace kernel_ir;  // NOLINT: this file rewrites kernel_ir

namespace {

constexpr size_t kMostParts = 64;
constexpr int64_t kLeastVectors = 4;  // of a part, on average: shorter loops are mostly beginnings and ends

bool is_call(const Expr& e, std::string_view name) { return e->kind == ExprKind::kCall && e->fn->name == name; }

/// An AxisStep of the axis that is split.
struct Step {
  int64_t at;
  bool before;
};

class JoinSplitter {
 public:
  JoinSplitter(const Kernel& k, const For& loop, int axis) : k_(k), loop_(loop), axis_(axis) {}

  /// Where parts end, but for the last; empty where something else is in the loop than stores of that form.
  std::set<int64_t> borders(int64_t extent) const {
    std::set<int64_t> out;
    for (const Stmt& s : loop_.body) {
      const Store* store = std::get_if<Store>(&s.node);
      if (!store || store->combiner != Combiner::kNone || store->guard || !store->axes.empty() || may_be_in_place(*store)) return {};
      visit(store->expr, [&](const Expr& e) {
        if (std::optional<Step> step = step_of(e); step && step->at > 0 && step->at < extent) out.insert(step->at);
      });
    }
    return out;
  }
  /// The stores for positions from `begin` to `end`, which `part` counts from 0.
  Body stores(int64_t begin, int64_t end, int part) const {
    Body out;
    for (const Stmt& s : loop_.body) {
      Store store = std::get<Store>(s.node);
      const std::map<int, Expr> moved = {{axis_, kernel_ir::axis(part) + index(begin)}};
      store.expr = tidy(substitute_axes(resolved(store.expr, begin, end), moved));
      for (Expr& at : store.indices) at = tidy_index(substitute_axes(resolved(at, begin, end), moved));
      store.axes = {part};
      out.push_back({store});
    }
    return out;
  }

 private:
  // An array of the result's form, whose elements one store reads and writes, may be updated where it lies; by several it is not.
  bool may_be_in_place(const Store& store) const {
    bool out = false;
    auto shape = [&](int buffer) -> const ir::Shape& { return k_.buffers[static_cast<size_t>(buffer)].shape; };
    visit(store.expr, [&](const Expr& e) { out |= e->kind == ExprKind::kLoad && shape(e->ref) == shape(store.buffer); });
    return out;
  }
  std::optional<Step> step_of(const Expr& e) const {
    std::optional<AxisStep> step = as_axis_step(e);
    if (!step || step->axis != axis_ || !step->at.is_static()) return std::nullopt;
    return Step{step->at.value(), step->before};
  }
  // What a condition is for all of these positions, where they are all the same.
  std::optional<bool> truth(const Expr& e, int64_t begin, int64_t end) const {
    if (is_call(e, "and")) {
      std::optional<bool> a = truth(e->args[0], begin, end), b = truth(e->args[1], begin, end);
      if (a == false || b == false) return false;
      return a && b ? std::optional(true) : std::nullopt;
    }
    std::optional<Step> step = step_of(e);
    if (!step || (begin < step->at && step->at < end)) return std::nullopt;
    return end <= step->at ? step->before : !step->before;
  }
  Expr resolved(const Expr& e, int64_t begin, int64_t end) const {
    return rewrite(e, [&](const Expr& x) -> Expr {
      const bool chosen = is_call(x, "select"), guarded = x->kind == ExprKind::kLoad && x->guard;
      if (!chosen && !guarded) return Expr();
      std::optional<bool> known = truth(chosen ? x->args[0] : x->guard, begin, end);
      if (!known) return Expr();
      if (chosen) return resolved(x->args[*known ? 1 : 2], begin, end);
      return resolved(*known ? load(x->dtype, x->ref, x->args) : x->fill, begin, end);
    });
  }
  // (j + 100) - 100 is j, which lanes see to lie side by side.
  static Expr tidy_index(const Expr& at) {
    std::optional<Affine> affine = as_affine(at);
    if (!affine) return at;
    Expr out;
    for (const auto& [axis, coefficient] : affine->coefficients) {
      Expr term = kernel_ir::axis(axis) * dim(coefficient);
      out = out ? out + term : term;
    }
    if (!out) return dim(affine->constant);
    return affine->constant.is(0) ? out : out + dim(affine->constant);
  }
  static Expr tidy(const Expr& e) {
    return rewrite(e, [](const Expr& x) -> Expr {
      if (x->kind != ExprKind::kLoad || x->guard) return Expr();
      std::vector<Expr> at;
      for (const Expr& i : x->args) at.push_back(tidy_index(i));
      return at == x->args ? Expr() : load(x->dtype, x->ref, at);
    });
  }

  const Kernel& k_;
  const For& loop_;
  int axis_;
};

std::string fresh_name(const Kernel& k, const std::string& stem) {
  for (int i = 1;; ++i) {
    std::string name = fmt::format("{}_{}", stem, i);
    auto is_taken = [&](const auto& all) { return std::any_of(all.begin(), all.end(), [&](const auto& x) { return x.name == name; }); };
    if (!is_taken(k.axes) && !is_taken(k.buffers) && !is_taken(k.values)) return name;
  }
}

}  // namespace

void split_joins(Kernel& k, const ir::Target& target) {
  const For* found = target.is_cuda() ? nullptr : independent_loop(k);
  if (!found || found->axes.size() < 2) return;
  const For loop = *found;
  const int axis = loop.axes.back();
  const ir::Dim extent = k.axes[static_cast<size_t>(axis)].extent;
  if (!extent.is_static()) return;
  const JoinSplitter splitter(k, loop, axis);
  std::set<int64_t> ends = splitter.borders(extent.value());
  if (ends.empty() || ends.size() >= kMostParts) return;
  ends.insert(extent.value());
  if (extent.value() < static_cast<int64_t>(ends.size()) * kLeastVectors * lanes_of(k, target)) return;
  For out{{loop.axes.begin(), loop.axes.end() - 1}, {}};
  int64_t begin = 0;
  for (int64_t end : ends) {
    int part = axis;
    if (begin > 0) part = static_cast<int>(k.axes.size()), k.axes.push_back({fresh_name(k, k.axes[static_cast<size_t>(axis)].name), 0});
    k.axes[static_cast<size_t>(part)].extent = end - begin;
    for (Stmt& s : splitter.stores(begin, end, part)) out.body.push_back(std::move(s));
    begin = end;
  }
  for (Stmt& s : k.body)
    if (For* f = std::get_if<For>(&s.node)) *f = std::move(out);
}

}  // namespace nabla::passes
