#include "passes/auto_shard/auto_shard.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "passes/auto_shard/annotate.h"
#include "passes/auto_shard/plan_text.h"
#include "passes/auto_shard/search.h"
#include "passes/shard/layout.h"
#include "passes/shard/propagate.h"
#include "runtime/base/option_error.h"
#include "runtime/base/option_name.h"

namespace nabla::passes {
namespace {

// What is said of the temporal axis alone.
ir::ShardingRef over_time(const ir::Mesh& mesh, const ir::ShardingRef& said) {
  if (!said) return said;
  ir::Sharding out = *said;
  auto of_ranks = [&](const ir::AxisRef& a) { return !is_temporal(mesh, {a}); };
  for (ir::DimSharding& dim : out.dims) std::erase_if(dim.axes, of_ranks);
  std::erase_if(out.replicated, of_ranks);
  return std::make_shared<const ir::Sharding>(std::move(out));
}

// The module, laid out along the temporal axis where that takes what depends on microbatches.
Result<ir::Module> laid_out_in_time(const ir::Module& module, PassContext& context) {
  const ir::Mesh& mesh = *module.mesh();
  ir::Module out = module;
  for (ir::StateLeaf& leaf : out.state) leaf.sharding = over_time(mesh, leaf.sharding);
  for (ir::FunctionPtr& f : out.functions) {
    ir::Function g = *f;
    for (ir::Value& v : g.values) v.sharding = over_time(mesh, v.sharding);
    for (ir::Node& n : g.nodes)
      if (const ir::Attr* said = n.attrs.find("sharding"))
        n.attrs.set("sharding", *over_time(mesh, std::make_shared<const ir::Sharding>(std::get<ir::Sharding>(*said))));
    f = std::make_shared<const ir::Function>(std::move(g));
  }
  return propagated_layouts(out, context);
}

}  // namespace

const FoundPlan* found_plan(const std::vector<PassReport>& reports) {
  for (const PassReport& r : reports)
    if (const auto* plan = std::any_cast<FoundPlan>(&r.found)) return plan;
  return nullptr;
}

ir::Module with_stored_layouts_of(const ir::Module& module, const ir::Module& found) {
  ir::Module out = module;
  for (size_t i = 0; i < out.state.size(); ++i) out.state[i].sharding = found.state[i].sharding;
  for (const ir::Entry& e : out.entries) {
    ir::Function f = *out.find(e.function);
    const ir::Function& g = *found.find(e.function);
    for (size_t p = 0; p < f.params.size(); ++p)
      f.values[static_cast<size_t>(f.params[p])].sharding = g.values[static_cast<size_t>(g.params[p])].sharding;
    out.set(std::make_shared<const ir::Function>(std::move(f)));
  }
  return out;
}

double weight_of(const ir::Module& module, const ir::Entry& entry) {
  auto goes_on = [](const ir::Entry& e) { return !e.reads.empty(); };
  const bool some = std::any_of(module.entries.begin(), module.entries.end(), goes_on);
  return some && !entry.writes.empty() && !goes_on(entry) ? 1e-3 : 1;
}

Result<ir::Module> auto_shard(const ir::Module& module, PassContext& context) {
  const AutoShardOptions& options = context.options.auto_shard;
  if (!options.search) return module;
  if (!module.mesh()) {
    return option_error(fmt::format("give one: {}", OptionName{"mesh", "dp=2,tp=4"}),
                        "{}: the module has no mesh over which it could be laid out", OptionName{"auto-shard"});
  }
  SearchLimits limits;
  if (options.max_bytes) limits.state = static_cast<double>(options.max_bytes->count);
  if (options.max_memory) limits.memory = static_cast<double>(options.max_memory->count);
  if (limits.state < kNever && limits.memory < kNever)
    return option_error(fmt::format("leave {} out", OptionName{"max-bytes"}),
                        "auto-shard: max-bytes and max-memory are given, and the latter counts the state, too");
  ir::Target target = context.target;
  if (!options.target.empty()) {
    ir::Target named = NABLA_TRY(ir::find_target(options.target));
    named.rates = target.rates, target = std::move(named);  // of a tuning file
  }
  ProgramGraph graph = NABLA_TRY(graph_of(module));
  FoundLayouts found = NABLA_TRY(search_layouts(module, graph, limits, target));
  std::optional<ir::Module> in_time;
  if (module.mesh()->temporal()) in_time = NABLA_TRY(laid_out_in_time(module, context));
  ir::Module out = annotated(module, graph, found, in_time ? &*in_time : nullptr, context.ops);
  if (options.values == SearchedValues::kPropagated) out = with_stored_layouts_of(module, out);
  context.found = FoundPlan{plan_text(out, found), std::round(found.state_bytes + found.kept_bytes)};
  context.remarks.push_back(
      {ir::RemarkKind::kSearch, "auto-shard",
       fmt::format("auto-shard: exchanges {:.3g} us, products {:.3g} us in a run of every entry, {:.0f} bytes of state on a rank; "
                   "{} choices in {} classes, {} of them solved with {} columns",
                   found.exchange_us, found.product_us, found.state_bytes, found.search.states.size(), found.search.classes,
                   found.search.left, found.search.columns)});
  return out;
}

}  // namespace nabla::passes
