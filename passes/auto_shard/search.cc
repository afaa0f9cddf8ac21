#include "passes/auto_shard/search.h"

#include <algorithm>
#include <map>

#include "ir/cost/exchange.h"
#include "ir/cost/time.h"
#include "ir/typed.h"
#include "passes/auto_shard/layout_states.h"
#include "runtime/base/option_error.h"
#include "runtime/base/option_name.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Factors;

constexpr double kOfAxisUs = 1e-4;  // of what costs the same, the layout along fewer axes is better

/// A choice by tensors that share it: their layouts in each of its states.
struct Choice {
  int node = -1;
  std::vector<int> classes;         // of a cluster: its dimensions that can be cut
  std::vector<Assignment> states;   // of a cluster: an axis per class; of a sum the last place is "pending"
  bool is_sum = false;
};
/// A tensor as a choice lays it out.
struct Seen {
  int node, list;
};
/// An edge of the graph of choices, and what stands behind it.
struct Reason {
  const ir::Type* type;
  int from, to;  // lists of layouts: in the states of the edge's first node, and of its second
  const ir::Function* function;
  const ir::Node* node;
};

class Search {
 public:
  Search(const ir::Module& m, const ProgramGraph& g, const SearchLimits& limits, const ir::Target& target)
      : m_(m),
        g_(g),
        mesh_(*m.mesh()),
        target_(target),
        axes_(axes_of_ranks(mesh_)),
        ways_(mesh_, target_),
        counts_kept_(limits.memory < kNever) {
    choices_.most_bytes = counts_kept_ ? limits.memory : limits.state;
  }

  Result<FoundLayouts> run() {
    if (axes_.size() > kMostAxes)
      return option_error(fmt::format("give a mesh with fewer, such as {}", OptionName{"mesh", "dp=2,tp=4"}),
                          "{}: layouts are searched along {} axes at most; mesh {} has {} of more than one rank", OptionName{"auto-shard"},
                          kMostAxes, mesh_.name, axes_.size());
    add_stored();
    add_clusters();
    if (counts_kept_)
      for (Spot s : g_.kept) count_kept(s);
    for (const SpotLink& l : g_.links) {
      Seen from = seen(l.from), to = seen(l.to);
      int list = to.list;
      if (is_sum(l.to)) list = ways_.list(without_pending(ways_.layouts(list)));
      add_edge(from.node, to.node, l.times, {&g_.ties.type(l.to), from.list, list, l.function, l.node});
    }
    for (const SplitNode& n : g_.nodes) add_node(n);
    std::optional<Chosen> found = NABLA_TRY(cheapest(choices_));
    if (!found) return too_large();
    return describe(std::move(*found));
  }

 private:
  static size_t at(int i) { return static_cast<size_t>(i); }
  static std::vector<Layout> without_pending(std::vector<Layout> layouts) {
    for (Layout& l : layouts) l.pending.clear();
    return layouts;
  }
  bool is_sum(Spot spot) const {
    auto found = clusters_.find(g_.ties.cluster(spot));
    return found != clusters_.end() && found->second.is_sum;
  }

  int add_choice(std::vector<double> us, std::vector<double> bytes = {}) {
    choices_.nodes.push_back({std::move(us), std::move(bytes)});
    return static_cast<int>(choices_.nodes.size()) - 1;
  }
  void add_edge(int first, int second, double times, Reason reason) {
    choices_.edges.push_back({first, second, ways_.between(*reason.type, reason.from, reason.to), times});
    reasons_.push_back(reason);
  }

  // ---- Leaves and inputs.
  void add_stored() {
    for (const StoredSpot& s : g_.stored) {
      const ir::Type& type = g_.ties.type(s.spot);
      std::vector<Layout> layouts = layouts_of_stored(mesh_, type, s.said);
      std::vector<double> us, bytes;
      for (const Layout& l : layouts) {
        us.push_back(0);
        for (const Axes& dim : l.dims) us.back() += kOfAxisUs * static_cast<double>(dim.size());
        if (s.leaf >= 0) bytes.push_back(static_cast<double>(local_type(mesh_, type, l).bytes().bounds().max));
      }
      stored_.push_back({add_choice(std::move(us), std::move(bytes)), ways_.list(std::move(layouts))});
      of_stored_[s.spot] = stored_.back();
    }
  }

  // ---- Clusters of tensors that lie alike.
  void add_clusters() {
    std::map<int, std::vector<Spot>> members;
    for (Spot s = 0; s < g_.ties.count(); ++s)
      if (!of_stored_.count(s)) members[g_.ties.cluster(s)].push_back(s);
    for (const auto& [cluster, spots] : members) {
      Choice& c = clusters_[cluster];
      std::map<int, std::vector<const ir::Dim*>> extents;
      for (Spot s : spots) {
        c.is_sum |= g_.sums.count(s) > 0;
        for (int d = 0; d < g_.ties.type(s).rank(); ++d) extents[g_.ties.root_of_dim(s, d)].push_back(&g_.ties.type(s).shape[at(d)]);
      }
      auto fits = [&](int root, const Axes& axes) {
        const std::vector<const ir::Dim*>& all = extents.at(root);
        return !g_.ties.is_blocked(root) && std::all_of(all.begin(), all.end(), [&](const ir::Dim* d) { return divides(mesh_, axes, *d); });
      };
      for (const auto& [root, all] : extents)
        if (std::any_of(axes_.begin(), axes_.end(), [&](const ir::AxisRef& a) { return fits(root, {a}); })) c.classes.push_back(root);
      int dims = static_cast<int>(c.classes.size());
      auto fits_place = [&](int place, const Axes& axes) { return place == dims || fits(c.classes[at(place)], axes); };
      c.states = assignments(axes_, dims + c.is_sum, fits_place);
      c.node = add_choice(std::vector<double>(c.states.size(), 0));
    }
  }
  Seen seen(Spot spot) {
    if (auto stored = of_stored_.find(spot); stored != of_stored_.end()) return stored->second;
    if (auto known = seen_.find(spot); known != seen_.end()) return known->second;
    const Choice& c = clusters_.at(g_.ties.cluster(spot));
    std::vector<Layout> layouts;
    for (const Assignment& a : c.states) {
      Layout l;
      for (int d = 0; d < g_.ties.type(spot).rank(); ++d) {
        auto place = std::find(c.classes.begin(), c.classes.end(), g_.ties.root_of_dim(spot, d));
        l.dims.push_back(place == c.classes.end() ? Axes() : axes_at(axes_, a, static_cast<int>(place - c.classes.begin())));
      }
      if (c.is_sum) l.pending = axes_at(axes_, a, static_cast<int>(c.classes.size()));
      layouts.push_back(std::move(l));
    }
    return seen_[spot] = {c.node, ways_.list(std::move(layouts))};
  }

  void count_kept(Spot spot) {
    Seen s = seen(spot);
    const std::vector<Layout>& layouts = ways_.layouts(s.list);
    std::vector<double>& bytes = choices_.nodes[at(s.node)].bytes;
    bytes.resize(layouts.size(), 0);
    for (size_t state = 0; state < layouts.size(); ++state) bytes[state] += part_bytes(spot, layouts[state]);
  }

  // ---- Nodes.
  double product_us(const SplitNode& n) const {
    if (!is_product(*n.node)) return 0;
    auto flops = static_cast<double>(ir::node_flops(*n.function, *n.node).bounds().max);
    DType factors = n.function->type(n.node->operands[0]).dtype;
    if (target_.is_cuda()) return flops / ir::product_rate(factors, target_).flops_per_us;
    return ir::products_us(flops, 0, target_.lanes(DType::kF32), target_.rates) * ir::ranks_of_cpu(target_.rates, mesh_.ranks());
  }

  void add_node(const SplitNode& n) {
    const std::vector<Factors::Factor>& factors = n.factors.factors;
    std::vector<char> whole(factors.size(), false);
    for (size_t k = 0; k < factors.size(); ++k) whole[k] = !can_split(factors[k]);
    for (const auto* tensors : {&n.factors.operands, &n.factors.results})
      for (const Factors::Tensor& t : *tensors)
        for (const std::vector<int>& dim : t)
          for (size_t k = 1; k < dim.size(); ++k) whole[at(dim[k])] = true;
    std::vector<int> places;
    for (size_t k = 0; k < factors.size(); ++k)
      if (!whole[k]) places.push_back(static_cast<int>(k));
    auto fits = [&](int place, const Axes& axes) { return divides(mesh_, axes, factors[at(places[at(place)])].size); };
    std::vector<Assignment> states = assignments(axes_, static_cast<int>(places.size()), fits);
    auto axes_of = [&](const Assignment& a, int factor) {
      auto place = std::find(places.begin(), places.end(), factor);
      return place == places.end() ? Axes() : axes_at(axes_, a, static_cast<int>(place - places.begin()));
    };
    auto laid_out = [&](const Factors::Tensor& dims, const Assignment& a) {
      Layout out;
      for (const std::vector<int>& dim : dims) out.dims.push_back(dim.empty() ? Axes() : axes_of(a, dim[0]));
      return out;
    };
    std::vector<double> us(states.size(), 0);
    double alone = product_us(n);
    bool known = n.factors.operands.size() == n.operands.size() && n.factors.results.size() == n.results.size();
    for (size_t s = 0; s < states.size(); ++s) {
      double parts = 1;
      for (int k : places) parts *= static_cast<double>(shards(mesh_, axes_of(states[s], k)));
      us[s] = n.times * alone / parts;
    }
    std::vector<std::vector<Layout>> made;
    for (size_t r = 0; r < n.results.size(); ++r) {
      made.emplace_back();
      for (size_t s = 0; s < states.size(); ++s) {
        Layout l = known ? laid_out(n.factors.results[r], states[s]) : layout_of(nullptr, g_.ties.type(n.results[r]).rank());
        for (int k : places) {
          Axes axes = axes_of(states[s], k);
          if (axes.empty() || factors[at(k)].kind != Factors::Kind::kReduce || has_factor(n.factors.results[r], k)) continue;
          if (factors[at(k)].combiner == kernel_ir::Combiner::kSum)
            l.pending.insert(l.pending.end(), axes.begin(), axes.end());
          else
            us[s] += n.times * ir::exchange_us(CollectiveKind::kAllReduce, mesh_, axes, part_bytes(n.results[r], l), target_);
        }
        made.back().push_back(std::move(l));
      }
    }
    int node = add_choice(std::move(us));
    if (alone > 0) products_.push_back(node);
    for (size_t i = 0; i < n.operands.size(); ++i) {
      const ir::Type& type = g_.ties.type(n.operands[i]);
      if (type.rank() == 0) continue;
      std::vector<Layout> wanted;
      for (const Assignment& a : states) wanted.push_back(known ? laid_out(n.factors.operands[i], a) : layout_of(nullptr, type.rank()));
      Seen from = seen(n.operands[i]);
      add_edge(from.node, node, n.times, {&type, from.list, ways_.list(std::move(wanted)), n.function, n.node});
    }
    for (size_t r = 0; r < n.results.size(); ++r) {
      Seen to = seen(n.results[r]);
      add_edge(node, to.node, n.times, {&g_.ties.type(n.results[r]), ways_.list(std::move(made[r])), to.list, n.function, n.node});
    }
  }
  double part_bytes(Spot spot, const Layout& l) const {
    return static_cast<double>(local_type(mesh_, g_.ties.type(spot), l).bytes().bounds().max);
  }

  // ---- What was found.
  Diagnostic too_large() const {
    double least = least_bytes(choices_), all = 0;
    std::vector<std::pair<double, std::string>> largest;
    for (const ir::StateLeaf& leaf : m_.state) {
      const std::vector<double>& bytes = choices_.nodes[at(stored_[largest.size()].node)].bytes;
      largest.push_back({*std::min_element(bytes.begin(), bytes.end()), leaf.name});
      all += static_cast<double>(leaf.type.bytes().bounds().max);
    }
    for (Spot spot : g_.kept) all += counts_kept_ ? part_bytes(spot, layout_of(nullptr, g_.ties.type(spot).rank())) : 0;
    std::stable_sort(largest.begin(), largest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    Diagnostic d = error(Code::kOverBudget,
                         "auto-shard: the state {}takes {:.0f} bytes on a rank at least, of {:.0f} in all, and at most {:.0f} are allowed",
                         counts_kept_ ? "with what is kept for the way back " : "", least, all, choices_.most_bytes);
    for (size_t i = 0; i < std::min<size_t>(3, largest.size()); ++i)
      d.notes.push_back(fmt::format("{} takes {:.0f} bytes on a rank at least", largest[i].second, largest[i].first));
    d.help = "take more ranks, or leave more of the layouts to the search";
    return d;
  }

  FoundLayouts describe(Chosen chosen) {
    FoundLayouts out;
    auto state = [&](int node) { return at(chosen.states[at(node)]); };
    std::vector<std::vector<size_t>> edges(choices_.nodes.size());
    for (size_t e = 0; e < choices_.edges.size(); ++e)
      edges[at(choices_.edges[e].first)].push_back(e), edges[at(choices_.edges[e].second)].push_back(e);
    for (size_t e = 0; e < choices_.edges.size(); ++e) {
      const Choices::Edge& edge = choices_.edges[e];
      const Reason& why = reasons_[e];
      Way way = way_between(mesh_, *why.type, ways_.layouts(why.from)[state(edge.first)],
                            ways_.layouts(why.to)[state(edge.second)], target_);
      auto part = static_cast<double>(local_type(mesh_, *why.type, way.from).bytes().bounds().max);
      for (const ReshardStep& step : way.steps) {
        if (const auto collective = collective_of(step.kind)) {
          out.exchanges.push_back({why.function, why.node, step.kind, step.axes, part, edge.times});
          out.exchange_us += edge.times * ir::exchange_us(*collective, mesh_, step.axes, part, target_);
        }
        part *= growth(mesh_, step);
      }
    }
    for (int node : products_) out.product_us += choices_.nodes[at(node)].us[state(node)];
    for (size_t i = 0; i < stored_.size(); ++i) out.stored.push_back(found(i, chosen, edges[at(stored_[i].node)]));
    for (Spot spot = 0; spot < g_.ties.count(); ++spot) {
      Seen s = seen(spot);
      out.spots.push_back(ways_.layouts(s.list)[state(s.node)]);
    }
    for (const FoundLayout& f : out.stored) out.state_bytes += f.stored->leaf >= 0 ? part_bytes(f.stored->spot, f.layout) : 0;
    for (Spot spot : g_.kept) out.kept_bytes += part_bytes(spot, out.spots[at(spot)]);
    out.search = std::move(chosen);
    return out;
  }

  static bool gathers(const Layout& from, const Layout& to) {
    for (size_t d = 0; d < from.dims.size(); ++d)
      if (!without(from.dims[d], to.dims[d]).empty()) return true;
    return false;
  }
  FoundLayout found(size_t i, const Chosen& chosen, const std::vector<size_t>& edges) const {
    const Seen& seen = stored_[i];
    const Choices::Node& node = choices_.nodes[at(seen.node)];
    const std::vector<Layout>& layouts = ways_.layouts(seen.list);
    auto mine = at(chosen.states[at(seen.node)]);
    FoundLayout out{&g_.stored[i], layouts[mine]};
    out.is_free = layouts.size() > 1;
    out.bytes = part_bytes(g_.stored[i].spot, out.layout);
    std::vector<double> us = node.us;
    for (size_t e : edges) {
      const Choices::Edge& edge = choices_.edges[e];
      bool reads = edge.first == seen.node;
      auto other = at(chosen.states[at(reads ? edge.second : edge.first)]);
      for (size_t s = 0; s < us.size(); ++s) us[s] += edge.times * (reads ? edge.table->at(s, other) : edge.table->at(other, s));
      if (reads) out.used_otherwise |= gathers(out.layout, ways_.layouts(reasons_[e].to)[other]);
    }
    for (size_t s = 0; s < us.size(); ++s)
      if (s != mine && us[s] - us[mine] < out.next_us) out.next_us = us[s] - us[mine], out.next = layouts[s];
    return out;
  }

  const ir::Module& m_;
  const ProgramGraph& g_;
  const ir::Mesh& mesh_;
  const ir::Target& target_;
  const std::vector<ir::AxisRef> axes_;
  WayTables ways_;
  Choices choices_;
  std::vector<Reason> reasons_;  // per edge
  std::vector<Seen> stored_;     // as ProgramGraph::stored
  std::map<Spot, Seen> of_stored_, seen_;
  std::map<int, Choice> clusters_;  // by SpotTies::cluster
  std::vector<int> products_;       // choices of nodes
  bool counts_kept_;
};

}  // namespace

Result<FoundLayouts> search_layouts(const ir::Module& module, const ProgramGraph& graph, const SearchLimits& limits,
                                    const ir::Target& target) {
  return Search(module, graph, limits, target).run();
}

}  // namespace nabla::passes
