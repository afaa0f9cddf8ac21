#include "passes/auto_shard/layout_states.h"

#include <algorithm>

#include "passes/shard/reshard_path.h"

namespace nabla::passes {
namespace {

using ir::Axes;

// Of ways that take the same time the one with fewer exchanges is better, and of these the one that cuts nothing.
constexpr double kOfExchangeUs = 1e-2, kOfCutUs = 1e-3;

bool is_cut(const ReshardStep& s) { return s.kind == ReshardStep::kCut; }

// Without the axis whose parts one rank computes after each other.
Axes of_ranks(const ir::Mesh& mesh, Axes axes) {
  std::erase_if(axes, [&](const ir::AxisRef& a) { return is_temporal(mesh, {a}); });
  return axes;
}

}  // namespace

std::vector<ir::AxisRef> axes_of_ranks(const ir::Mesh& mesh) {
  std::vector<ir::AxisRef> out;
  for (const ir::MeshAxis& a : mesh.axes)
    if (!a.temporal && a.size > 1) out.push_back({a.name});
  return out;
}

Axes axes_at(const std::vector<ir::AxisRef>& axes, const Assignment& assignment, int place) {
  Axes out;
  for (size_t a = 0; a < axes.size(); ++a)
    if (assignment[a] == place) out.push_back(axes[a]);
  return out;
}

std::vector<Assignment> assignments(const std::vector<ir::AxisRef>& axes, int places, const Fits& fits) {
  std::vector<Assignment> out{{}};
  for (size_t a = 0; a < axes.size(); ++a) {
    std::vector<Assignment> longer;
    for (const Assignment& begun : out)
      for (int place = -1; place < places; ++place) {
        Assignment next = begun;
        next.push_back(place);
        if (place < 0 || fits(place, axes_at({axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(a) + 1}, next, place)))
          longer.push_back(std::move(next));
      }
    out = std::move(longer);
  }
  return out;
}

std::vector<Layout> layouts_of_stored(const ir::Mesh& mesh, const ir::Type& type, const ir::ShardingRef& said) {
  Layout base = layout_of(said, type.rank());
  Axes taken = said ? ir::axes_of(*said) : Axes();
  const std::vector<Axes> asked = base.dims;
  for (Axes& dim : base.dims) dim = of_ranks(mesh, std::move(dim));
  std::vector<ir::AxisRef> left = axes_of_ranks(mesh);
  std::erase_if(left, [&](const ir::AxisRef& a) { return overlap(mesh, {a}, taken); });
  auto with = [&](int dim, const Axes& more) {
    Axes axes = base.dims[static_cast<size_t>(dim)];
    axes.insert(axes.end(), more.begin(), more.end());
    return axes;
  };
  auto fits = [&](int dim, const Axes& more) {
    auto d = static_cast<size_t>(dim);
    Axes all = asked[d];  // microbatches cut what ranks have
    all.insert(all.begin(), more.begin(), more.end());
    return (!said || said->dims[d].open) && divides(mesh, all, type.shape[d]);
  };
  std::vector<Layout> out;
  for (const Assignment& a : assignments(left, type.rank(), fits)) {
    Layout layout = base;
    for (int d = 0; d < type.rank(); ++d) layout.dims[static_cast<size_t>(d)] = with(d, axes_at(left, a, d));
    out.push_back(std::move(layout));
  }
  return out;
}

Way way_between(const ir::Mesh& mesh, const ir::Type& type, Layout from, Layout to, const ir::Target& target) {
  Way out;
  for (const ir::AxisRef& a : to.pending)
    if (std::find(from.pending.begin(), from.pending.end(), a) == from.pending.end()) return out;
  from.pending = without(from.pending, to.pending);
  to.pending.clear();
  out.us = 0;
  if (!(from == to)) out.steps = plain_steps(mesh, from, to);
  if (!out.steps.empty()) out.us = steps_us(mesh, type, from, out.steps, target);
  for (const ReshardStep& s : out.steps) out.us += is_cut(s) ? kOfCutUs : kOfExchangeUs;
  out.from = std::move(from);
  return out;
}

int WayTables::list(std::vector<Layout> layouts) {
  std::string key;
  for (const Layout& l : layouts) {
    for (const Axes& dim : l.dims) key += ir::str(dim);
    key += "+" + ir::str(l.pending) + ";";
  }
  auto [at, fresh] = known_.try_emplace(key, static_cast<int>(lists_.size()));
  if (fresh) lists_.push_back(std::move(layouts));
  return at->second;
}

std::shared_ptr<const CostTable> WayTables::between(const ir::Type& type, int from, int to) {
  std::shared_ptr<const CostTable>& known = tables_[{type.str(), {from, to}}];
  if (known) return known;
  auto made = std::make_shared<CostTable>(CostTable{layouts(from).size(), layouts(to).size(), {}});
  for (const Layout& a : layouts(from))
    for (const Layout& b : layouts(to)) made->us.push_back(way_between(mesh_, type, a, b, target_).us);
  return known = std::move(made);
}

}  // namespace nabla::passes
