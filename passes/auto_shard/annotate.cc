#include "passes/auto_shard/annotate.h"

#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::ValueId;

// What is said stays; what is open becomes what was found. Parameters that are gathered where they are used follow what
// values in the middle say, as with ZeRO: they have a weaker priority.
ir::Sharding completed(const ir::ShardingRef& said, const FoundLayout& found) {
  ir::Sharding out = said ? *said : open_sharding(static_cast<int>(found.layout.dims.size()));
  for (size_t d = 0; d < out.dims.size(); ++d) {
    ir::DimSharding& dim = out.dims[d];
    if (!dim.open) continue;
    if (dim.axes.size() < found.layout.dims[d].size()) dim.axes = found.layout.dims[d];
    if (found.used_otherwise && !dim.axes.empty() && found.stored->leaf >= 0) dim.priority = std::max(dim.priority, 1);
    dim.open = false;
  }
  return out;
}

class Annotation {
 public:
  Annotation(const ir::Module& m, const ProgramGraph& graph, const FoundLayouts& found, const ir::OpTable& ops)
      : m_(m), out_(m), graph_(graph), found_(found), ops_(ops) {}

  ir::Module run() {
    bool all = m_.mesh()->temporal() == nullptr;
    for (const auto& [function, values] : graph_.values) {
      Function f = *function;
      for (size_t v = 0; all && v < f.values.size(); ++v)
        if (values.said[v] < 0 && f.values[v].type.rank() > 0) f.values[v].sharding = layout_of_value(values, v);
      functions_.emplace(function, std::move(f));
    }
    for (const FoundLayout& f : found_.stored) lay_out(f);
    for (const auto& [function, made] : functions_)
      out_.set(all ? with_shard_nodes(*function, made) : std::make_shared<const Function>(made));
    return std::move(out_);
  }

 private:
  static ir::ShardingRef said(const Layout& layout) {
    ir::Sharding out;
    for (const ir::Axes& axes : layout.dims) out.dims.push_back({axes});
    return std::make_shared<const ir::Sharding>(std::move(out));
  }
  ir::ShardingRef layout_of_value(const SpotsOfValues& values, size_t v) const {
    const Layout& layout = found_.spots[static_cast<size_t>(values.spot[v])];
    return said(values.free[v] ? Layout{std::vector<ir::Axes>(layout.dims.size()), {}} : layout);
  }

  void lay_out(const FoundLayout& f) {
    const StoredSpot& s = *f.stored;
    if (f.layout.dims.empty() || (s.leaf < 0 && s.entry < 0)) return;
    auto layout = std::make_shared<const ir::Sharding>(completed(s.said, f));
    if (s.leaf >= 0) {
      out_.state[static_cast<size_t>(s.leaf)].sharding = layout;
      return;
    }
    const ir::Entry& e = m_.entries[static_cast<size_t>(s.entry)];
    Function& function = functions_.at(m_.find(e.function));
    function.values[static_cast<size_t>(function.params[e.reads.size() + s.input])].sharding = layout;
  }

  // `made` is `from` with layouts.
  ir::FunctionPtr with_shard_nodes(const Function& from, const Function& made) const {
    std::map<const ir::Node*, std::map<ValueId, Spot>> handed_on;
    for (const HandedOn& h : graph_.handed_on)
      if (h.function == &from) handed_on[h.node][h.value] = h.spot;
    const ir::Entry* entry = nullptr;
    for (const ir::Entry& e : m_.entries)
      if (e.function == from.name && !entry) entry = &e;
    FunctionCopy copy(made, ops_, &m_);
    for (size_t i = 0; i < made.nodes.size(); ++i) {
      auto changed = handed_on.find(&from.nodes[i]);
      if (changed == handed_on.end()) {
        copy.copy(made.nodes[i]);
        continue;
      }
      const ir::Node& n = made.nodes[i];
      copy.builder().set_location(n.location);
      std::vector<ir::Val> operands = copy.at(n.operands);
      for (size_t k = 0; k < operands.size(); ++k)
        if (auto spot = changed->second.find(n.operands[k]); spot != changed->second.end() && operands[k].rank() > 0)
          operands[k] = shard(copy, operands[k], found_.spots[static_cast<size_t>(spot->second)]);
      copy.set(n.results, copy.builder().clone(n, operands));
    }
    std::vector<ir::Val> results = copy.at(made.results);
    const SpotsOfValues& values = graph_.values.at(&from);
    copy.builder().set_location(nullptr);
    for (size_t w = 0; entry && w < entry->writes.size(); ++w) {
      auto v = static_cast<size_t>(made.results[w]);
      const FoundLayout& leaf = found_.stored[static_cast<size_t>(entry->writes[w])];
      Spot spot = values.said[v] >= 0 ? values.said[v] : values.spot[v];
      if (leaf.layout.dims.empty() || spot == leaf.stored->spot) continue;
      bool same = !values.free[v] && found_.spots[static_cast<size_t>(spot)].dims == leaf.layout.dims;
      if (!same) results[w] = shard(copy, results[w], leaf.layout);
    }
    Function out = copy.builder().finish(results);
    out.location = made.location;
    return std::make_shared<const Function>(std::move(out));
  }
  static ir::Val shard(FunctionCopy& copy, ir::Val v, const Layout& layout) {
    return copy.builder().op("shard", {v}, {{"sharding", *said(layout)}});
  }

  const ir::Module& m_;
  ir::Module out_;
  const ProgramGraph& graph_;
  const FoundLayouts& found_;
  const ir::OpTable& ops_;
  std::map<const Function*, Function> functions_;  // with layouts, by what they were
};

}  // namespace

ir::Module annotated(const ir::Module& module, const ProgramGraph& graph, const FoundLayouts& found, const ir::OpTable& ops) {
  return Annotation(module, graph, found, ops).run();
}

}  // namespace nabla::passes
