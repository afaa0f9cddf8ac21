#include "passes/lower/sibling_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace nabla::passes {
namespace {

using kernel_ir::Expr;
using kernel_ir::ExprKind;

struct Sibling {
  std::set<int> reads;  // beside scalars and each other
  size_t nodes = 0;     // of its members' formulas
};

// None if a member is no result, or reads elsewhere than at its own position.
std::optional<Sibling> as_sibling(const FusionPlan& plan, const FusionGroup& g, const std::vector<bool>& is_result) {
  std::set<int> own;
  Sibling out;
  for (const FusionGroup::Member& m : g.members) own.insert(m.tensor);
  for (const FusionGroup::Member& m : g.members) {
    const Tensor& t = plan.graph.tensors[m.tensor];
    bool whole = static_cast<size_t>(t.formula.rank) == g.outer.size() && t.formula.rank > 0;
    if (!whole || !is_result[m.tensor] || !t.formula.is_map() || t.fence || t.contraction) return std::nullopt;
    for (size_t d = 0; d < m.outer_axes.size(); ++d)
      if (m.outer_axes[d] != static_cast<int>(d)) return std::nullopt;
    const std::vector<Expr> own_position = kernel_ir::axes_as_indices(m.outer_axes);
    bool inside = true;
    kernel_ir::visit(t.formula.value, [&](const Expr& e) {
      ++out.nodes;
      if (e->kind != ExprKind::kLoad || e->args.empty()) return;
      inside &= !e->guard && e->args == own_position;
      if (!own.count(e->ref)) out.reads.insert(e->ref);
    });
    if (!inside) return std::nullopt;
  }
  return out;
}

size_t width_of(const FusionPlan& plan, const FusionGroup& g) {
  return bytes_of(plan.graph.tensors[g.members[0].tensor].dtype);
}

class Siblings {
 public:
  Siblings(FusionPlan& plan, GroupOrder& order, const SiblingLimits& limits)
      : plan_(plan), order_(order), limits_(limits) {}

  // Unites group `g` with the last group that reads one of the same tensors. If there is none, later groups may join `g`.
  void take(int g, Sibling sibling) {
    int with = g;
    for (int t : sibling.reads)
      if (auto last = last_.find(t); last != last_.end() && can_unite(last->second, g, sibling)) with = last->second;
    for (int t : sibling.reads) last_[t] = with;
    if (with != g) unite(with, g);
    Sibling& kept = kept_[with];
    kept.nodes += sibling.nodes;
    kept.reads.merge(sibling.reads);
  }

 private:
  bool can_unite(int first, int second, const Sibling& sibling) const {
    const FusionGroup &a = plan_.groups[first], &b = plan_.groups[second];
    const Sibling& kept = kept_.at(first);
    if (a.members.size() + b.members.size() > limits_.members || kept.nodes + sibling.nodes > limits_.nodes) return false;
    auto includes = [](const std::set<int>& x, const std::set<int>& y) {
      return std::includes(x.begin(), x.end(), y.begin(), y.end());
    };
    bool nested = includes(kept.reads, sibling.reads) || includes(sibling.reads, kept.reads);
    return nested && a.outer == b.outer && width_of(plan_, a) == width_of(plan_, b) && !order_.reaches(first, second) &&
           !order_.reaches(second, first);
  }

  void unite(int first, int second) {
    FusionGroup &a = plan_.groups[first], &b = plan_.groups[second];
    for (FusionGroup::Member& m : b.members) {
      plan_.group_of[m.tensor] = first;
      a.members.push_back(std::move(m));
    }
    b.members.clear();
    std::sort(a.members.begin(), a.members.end(), [](const auto& x, const auto& y) { return x.tensor < y.tensor; });
    order_.merge(first, second);
  }

  FusionPlan& plan_;
  GroupOrder& order_;
  SiblingLimits limits_;
  std::map<int, int> last_;      // by tensor: the last group that reads it
  std::map<int, Sibling> kept_;  // by group
};

}  // namespace

void unite_siblings(FusionPlan& plan, GroupOrder& order, const std::vector<bool>& is_result,
                    const SiblingLimits& limits) {
  Siblings siblings(plan, order, limits);
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    if (plan.groups[g].members.empty()) continue;
    if (std::optional<Sibling> sibling = as_sibling(plan, plan.groups[g], is_result))
      siblings.take(static_cast<int>(g), std::move(*sibling));
  }
}

}  // namespace nabla::passes
