#include "passes/auto_shard/annotate.h"

#include <algorithm>
#include <set>

#include "passes/rewrite.h"
#include "passes/shard/layout.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::ValueId;

// What is said stays; what is open becomes what was found, which microbatches cut further. Parameters that are gathered where
// they are used follow what values in the middle say, as with ZeRO: they have a weaker priority.
ir::Sharding completed(const ir::Mesh& mesh, const ir::ShardingRef& said, const FoundLayout& found) {
  ir::Sharding out = said ? *said : open_sharding(static_cast<int>(found.layout.dims.size()));
  for (size_t d = 0; d < out.dims.size(); ++d) {
    ir::DimSharding& dim = out.dims[d];
    if (!dim.open) continue;
    const ir::Axes& ranks = found.layout.dims[d];
    ir::Axes over_time = dim.axes;
    std::erase_if(over_time, [&](const ir::AxisRef& a) { return !is_temporal(mesh, {a}); });
    if (dim.axes.size() < ranks.size() + over_time.size()) {
      dim.axes = ranks;
      dim.axes.insert(dim.axes.end(), over_time.begin(), over_time.end());
    }
    if (found.used_otherwise && !dim.axes.empty() && found.stored->leaf >= 0) dim.priority = std::max(dim.priority, 1);
    dim.open = false;
  }
  return out;
}

class Annotation {
 public:
  Annotation(const ir::Module& m, const ProgramGraph& graph, const FoundLayouts& found, const ir::Module* in_time, const ir::OpTable& ops)
      : m_(m), out_(m), graph_(graph), found_(found), in_time_(in_time), ops_(ops) {}

  ir::Module run() {
    const bool all = !in_time_ || batch_lies_alike();
    for (const auto& [function, values] : graph_.values) {
      Function f = *function;
      for (size_t v = 0; all && v < f.values.size(); ++v) {
        bool follows = in_time_ && values.free[v];  // it is made as its readers want it
        if (values.said[v] < 0 && f.values[v].type.rank() > 0 && !follows) f.values[v].sharding = layout_of_value(*function, values, v);
      }
      functions_.emplace(function, std::move(f));
    }
    for (const FoundLayout& f : found_.stored) lay_out(f);
    for (const auto& [function, made] : functions_)
      out_.set(all ? with_shard_nodes(*function, made) : std::make_shared<const Function>(made));
    return std::move(out_);
  }

 private:
  // Microbatches are parts of what a rank has: where dimensions that they cut lie otherwise in one value than in another, one
  // microbatch of the one would need what is in several of the other.
  bool batch_lies_alike() const {
    std::set<std::string> layouts;
    for (const auto& [function, values] : graph_.values)
      for (size_t v = 0; v < function->values.size(); ++v) {
        const ir::Value& value = function->values[v];
        const ir::Sharding* over_time = in_time_->find(function->name)->values[v].sharding.get();
        if (value.type.rank() == 0 || !over_time || values.free[v]) continue;
        bool stored = values.said[v] >= 0;
        ir::ShardingRef own = stored ? said(*function, v, found_.spots[static_cast<size_t>(values.said[v])])
                                     : layout_of_value(*function, values, v);
        for (size_t d = 0; d < own->dims.size(); ++d)
          if (!over_time->dims[d].axes.empty()) layouts.insert(own->dims[d].str());
      }
    return layouts.size() < 2;
  }
  // The layout, and along each dimension of the value what microbatches cut.
  ir::ShardingRef said(const Function& f, size_t v, Layout layout) const {
    const ir::Sharding* over_time = in_time_ ? in_time_->find(f.name)->values[v].sharding.get() : nullptr;
    ir::Sharding out;
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      ir::Axes all = layout.dims[d];
      if (over_time) all.insert(all.end(), over_time->dims[d].axes.begin(), over_time->dims[d].axes.end());
      bool fits = divides(*m_.mesh(), all, f.values[v].type.shape[d]);
      out.dims.push_back({fits ? all : layout.dims[d]});
    }
    return std::make_shared<const ir::Sharding>(std::move(out));
  }
  ir::ShardingRef layout_of_value(const Function& f, const SpotsOfValues& values, size_t v) const {
    const Layout& layout = found_.spots[static_cast<size_t>(values.spot[v])];
    return said(f, v, values.free[v] ? Layout{std::vector<ir::Axes>(layout.dims.size()), {}} : layout);
  }

  void lay_out(const FoundLayout& f) {
    const StoredSpot& s = *f.stored;
    if (f.layout.dims.empty() || (s.leaf < 0 && s.entry < 0)) return;
    auto layout = std::make_shared<const ir::Sharding>(completed(*m_.mesh(), s.said, f));
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
    const ir::Entry* entry = m_.entry_of(from.name);
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
          operands[k] = shard(copy, operands[k], from, static_cast<size_t>(n.operands[k]), found_.spots[static_cast<size_t>(spot->second)]);
      copy.set(n.results, copy.builder().clone(n, operands));
    }
    std::vector<ir::Val> results = copy.at(made.results);
    const SpotsOfValues& values = graph_.values.at(&from);
    copy.builder().set_location(nullptr);
    const std::map<ValueId, Spot>& at_end = handed_on[nullptr];
    for (size_t r = 0; r < results.size(); ++r)
      if (auto spot = at_end.find(made.results[r]); spot != at_end.end() && results[r].rank() > 0)
        results[r] = shard(copy, results[r], from, static_cast<size_t>(made.results[r]), found_.spots[static_cast<size_t>(spot->second)]);
    for (size_t w = 0; entry && w < entry->writes.size(); ++w) {
      auto v = static_cast<size_t>(made.results[w]);
      const FoundLayout& leaf = found_.stored[static_cast<size_t>(entry->writes[w])];
      Spot spot = values.said[v] >= 0 ? values.said[v] : values.spot[v];
      if (leaf.layout.dims.empty() || spot == leaf.stored->spot) continue;
      bool same = !values.free[v] && found_.spots[static_cast<size_t>(spot)].dims == leaf.layout.dims;
      if (!same) results[w] = shard(copy, results[w], from, v, leaf.layout);
    }
    Function out = copy.builder().finish(results);
    out.location = made.location;
    return std::make_shared<const Function>(std::move(out));
  }
  ir::Val shard(FunctionCopy& copy, ir::Val x, const Function& f, size_t v, const Layout& layout) const {
    return copy.builder().op("shard", {x}, {{"sharding", *said(f, v, layout)}});
  }

  const ir::Module& m_;
  ir::Module out_;
  const ProgramGraph& graph_;
  const FoundLayouts& found_;
  const ir::Module* in_time_;
  const ir::OpTable& ops_;
  std::map<const Function*, Function> functions_;  // with layouts, by what they were
};

}  // namespace

ir::Module annotated(const ir::Module& module, const ProgramGraph& graph, const FoundLayouts& found, const ir::Module* in_time,
                     const ir::OpTable& ops) {
  return Annotation(module, graph, found, in_time, ops).run();
}

}  // namespace nabla::passes
