#include "passes/shard/propagation.h"

#include <algorithm>

#include "passes/rewrite.h"
#include "passes/shard/manual_regions.h"

namespace nabla::passes {

using ir::Axes;
using ir::Factors;
using ir::Function;
using ir::Node;
using ir::ValueId;

bool Propagation::sweep(int f, bool forward) {
  const Function& function = *m_.functions[f];
  bool changed = false;
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    const Node& n = function.nodes[forward ? i : function.nodes.size() - 1 - i];
    if (is_border(n))
      changed |= relate_border(f, n);
    else if (n.op->name == "propagation_barrier")
      changed |= relate_barrier(f, n);
    else if (n.op->lower != ir::Lowering::kControl && n.op->factors.exists())
      changed |= relate(f, n);
  }
  return changed;
}

namespace {

template <class Tensor>
std::vector<Tensor> tensors(const Node& n, const Factors& factors) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < n.results.size(); ++i) out.push_back({n.results[i], &factors.results[i]});
  for (size_t i = 0; i < n.operands.size(); ++i) out.push_back({n.operands[i], &factors.operands[i]});
  return out;
}

}  // namespace

bool Propagation::relate(int f, const Node& n) {
  const Function& function = *m_.functions[f];
  auto [known, fresh] = factors_.try_emplace(&n);
  if (fresh) known->second = n.op->factors(typed(function, n));
  const Factors& factors = known->second;
  std::vector<Tensor> all = tensors<Tensor>(n, factors);
  std::vector<int> from(factors.factors.size(), -1);
  std::vector<Axes> wanted = agree(f, n, factors, all, from);
  bool changed = false;
  for (const Tensor& t : all)
    for (size_t d = 0; d < t.dims->size(); ++d) {
      Axes axes = axes_of_dim(mesh_, (*t.dims)[d], factors, wanted);
      if (axes.empty()) continue;
      auto first = std::find_if((*t.dims)[d].begin(), (*t.dims)[d].end(), [&](int k) { return from[k] >= 0; });
      changed |= extend(first_[f][t.value] + static_cast<int>(d), axes,
                        {f, &n, first == (*t.dims)[d].end() ? -1 : from[*first]});
    }
  return changed;
}

// The axes of every factor: of those that its tensors have, the longest; where neither continues the other, those of
// the larger tensor. `places`: where they are from.
std::vector<Axes> Propagation::agree(int f, const Node& n, const Factors& factors, const std::vector<Tensor>& all,
                                     std::vector<int>& places) {
  std::vector<Axes> out(factors.factors.size());
  std::vector<const Tensor*> from(factors.factors.size());
  for (const Tensor& t : all)
    for (size_t d = 0; d < t.dims->size(); ++d) {
      const std::vector<int>& dim = (*t.dims)[d];
      auto parts = axes_of_factors(mesh_, axes_[variable(f, t.value, static_cast<int>(d))], dim, factors);
      for (size_t k = 0; parts && k < dim.size(); ++k) {
        const Axes& axes = (*parts)[k];
        if (axes.empty() || !can_split(factors.factors[dim[k]])) continue;
        Axes& best = out[dim[k]];
        bool longer = is_prefix(best, axes), conflict = !longer && !is_prefix(axes, best);
        if (conflict) {
          const Tensor& other = *from[dim[k]];
          bool larger = bytes(f, t.value) > bytes(f, other.value);
          conflicts_[{f, &n - m_.functions[f]->nodes.data()}] = {larger ? t.value : other.value,
                                                                 larger ? other.value : t.value};
          if (!larger) continue;
        }
        if (!longer && !conflict) continue;
        best = axes, from[dim[k]] = &t;
        places[dim[k]] = first_[f][t.value] + static_cast<int>(d);
      }
    }
  return out;
}
// As many of the axes as fit: in every value that has the dimension, an axis stands once and divides the extent.
bool Propagation::extend(int place, const Axes& axes, const Cause& cause) {
  int variable = find(place);
  if (axes.size() <= axes_[variable].size() || !is_prefix(axes_[variable], axes)) return false;
  if (closed_[variable]) return refuse(variable, axes, cause, "it is closed");
  Axes longest = axes_[variable];
  for (size_t i = longest.size(); i < axes.size(); ++i) {
    Axes more = longest;
    more.push_back(axes[i]);
    if (const char* why = misfit(variable, more)) {
      refuse(variable, more, cause, why);
      break;
    }
    longest = std::move(more);
  }
  if (longest.size() == axes_[variable].size()) return false;
  axes_[variable] = std::move(longest);
  because_.insert_or_assign(variable, std::make_pair(place, cause));
  return true;
}
bool Propagation::refuse(int variable, const Axes& axes, const Cause& cause, const char* why) {
  if (explains_) refused_[variable].insert_or_assign(ir::str(axes), std::make_pair(cause, why));
  return false;
}
// Why the dimension cannot have these axes; null: it can.
const char* Propagation::misfit(int variable, const Axes& axes) const {
  for (int member : members_[variable]) {
    const Place& p = places_[member];
    const ir::Value& value = m_.functions[p.function]->values[p.value];
    if (!divides(mesh_, axes, value.type.shape[p.dim])) return "the extent is not divisible so";
    Axes others;
    for (int d = 0; d < value.type.rank(); ++d) {
      const Axes& more = axes_[find(first_[p.function][p.value] + d)];
      if (d != p.dim) others.insert(others.end(), more.begin(), more.end());
    }
    if (value.sharding)
      others.insert(others.end(), value.sharding->replicated.begin(), value.sharding->replicated.end());
    if (overlap(mesh_, axes, others)) return "another dimension has them, or the value is replicated along them";
  }
  return nullptr;
}

// Along the manual axes one side is cut and the other is not; the axes that follow them are the same on both.
bool Propagation::relate_border(int f, const Node& n) {
  bool enters = n.op->name == "full_to_shard";
  ValueId full = enters ? n.operands[0] : n.results[0], part = enters ? n.results[0] : n.operands[0];
  const ir::Sharding& parts = n.attrs.get_sharding("parts");
  const Axes& manual = n.attrs.get_axes("axes");
  bool changed = false;
  for (size_t d = 0; d < parts.dims.size(); ++d) {
    const Axes& cut = parts.dims[d].axes;
    int whole_at = first_[f][full] + static_cast<int>(d), part_at = first_[f][part] + static_cast<int>(d);
    Axes outside = axes_[find(whole_at)], inside = axes_[find(part_at)];
    if (is_prefix(cut, outside)) {
      auto first = outside.begin() + static_cast<std::ptrdiff_t>(cut.size());
      auto end = std::find_if(first, outside.end(), [&](const ir::AxisRef& a) {
        return std::any_of(manual.begin(), manual.end(), [&](const ir::AxisRef& m) { return m.name == a.name; });
      });
      changed |= extend(part_at, Axes(first, end), {f, &n, whole_at});
    }
    Axes all = cut;
    all.insert(all.end(), inside.begin(), inside.end());
    changed |= extend(whole_at, all, {f, &n, part_at});
  }
  return changed;
}

bool Propagation::relate_barrier(int f, const Node& n) {
  const std::string& direction = n.attrs.get_string("direction");
  bool changed = false;
  for (int d = 0; d < m_.functions[f]->type(n.results[0]).rank(); ++d) {
    int from = first_[f][n.operands[0]] + d, to = first_[f][n.results[0]] + d;
    if (direction == "forward" || direction == "both") changed |= extend(to, Axes(axes_[find(from)]), {f, &n, from});
    if (direction == "backward" || direction == "both") changed |= extend(from, Axes(axes_[find(to)]), {f, &n, to});
  }
  return changed;
}

}  // namespace nabla::passes
