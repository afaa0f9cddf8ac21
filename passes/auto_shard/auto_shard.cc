#include "passes/auto_shard/auto_shard.h"

#include "passes/auto_shard/plan_text.h"
#include "passes/auto_shard/search.h"
#include "passes/shard/layout.h"

namespace nabla::passes {
namespace {

// What is said stays; what is open becomes what was found. Parameters that are gathered where they are used follow what
// values in the middle say, as with ZeRO: they have a weaker priority.
ir::Sharding completed(const ir::ShardingRef& said, const FoundLayout& found) {
  int rank = static_cast<int>(found.layout.dims.size());
  ir::Sharding out = said ? *said : open_sharding(rank);
  for (size_t d = 0; d < out.dims.size(); ++d) {
    ir::DimSharding& dim = out.dims[d];
    if (!dim.open) continue;
    if (dim.axes.size() < found.layout.dims[d].size()) dim.axes = found.layout.dims[d];
    if (found.used_otherwise && !dim.axes.empty() && found.stored->leaf >= 0) dim.priority = std::max(dim.priority, 1);
    dim.open = false;
  }
  return out;
}

ir::Module laid_out(const ir::Module& module, const FoundLayouts& found) {
  ir::Module out = module;
  for (const FoundLayout& f : found.stored) {
    const StoredSpot& s = *f.stored;
    if (f.layout.dims.empty()) continue;
    auto layout = std::make_shared<const ir::Sharding>(completed(s.said, f));
    if (s.leaf >= 0) out.state[static_cast<size_t>(s.leaf)].sharding = layout;
    if (s.entry < 0) continue;
    const ir::Entry& e = out.entries[static_cast<size_t>(s.entry)];
    ir::Function function = *out.find(e.function);
    function.values[static_cast<size_t>(function.params[e.reads.size() + s.input])].sharding = layout;
    out.set(std::make_shared<const ir::Function>(std::move(function)));
  }
  return out;
}

}  // namespace

Result<ir::Module> auto_shard(const ir::Module& module, PassContext& context) {
  const std::string& search = context.options.at("search");
  if (search != "true" && search != "false") return error(Code::kBadOption, "auto-shard: search is true or false, not `{}`", search);
  if (search == "false") return module;
  if (!module.mesh()) {
    Diagnostic d = error(Code::kBadOption, "auto-shard: the module has no mesh over which it could be laid out");
    d.help = "give one: --mesh dp=2,tp=4";
    return d;
  }
  double most = kNever;
  if (auto bytes = NABLA_TRY(bytes_option(context, "max-bytes"))) most = static_cast<double>(*bytes);
  ir::Target target = context.target;
  if (const std::string& name = context.options.at("target"); !name.empty()) target = NABLA_TRY(ir::find_target(name));
  ProgramGraph graph = NABLA_TRY(graph_of(module));
  FoundLayouts found = NABLA_TRY(search_layouts(module, graph, most, target));
  ir::Module out = laid_out(module, found);
  context.texts["plan"] = plan_text(out, found);
  context.remarks.push_back(
      fmt::format("auto-shard: exchanges {:.3g} us, products {:.3g} us in a run of every entry, {:.0f} bytes of state on a rank; {} choices "
                  "in {} classes, {} of them solved with {} columns",
                  found.exchange_us, found.product_us, found.state_bytes, found.search.states.size(), found.search.classes,
                  found.search.left, found.search.columns));
  return out;
}

}  // namespace nabla::passes
