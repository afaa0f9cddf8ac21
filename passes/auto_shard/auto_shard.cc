#include "passes/auto_shard/auto_shard.h"

#include "passes/auto_shard/annotate.h"
#include "passes/auto_shard/plan_text.h"
#include "passes/auto_shard/search.h"

namespace nabla::passes {

Result<ir::Module> auto_shard(const ir::Module& module, PassContext& context) {
  const std::string& search = context.options.at("search");
  if (search != "true" && search != "false") return error(Code::kBadOption, "auto-shard: search is true or false, not `{}`", search);
  if (search == "false") return module;
  if (!module.mesh()) {
    Diagnostic d = error(Code::kBadOption, "auto-shard: the module has no mesh over which it could be laid out");
    d.help = "give one: --mesh dp=2,tp=4";
    return d;
  }
  SearchLimits limits;
  if (auto bytes = NABLA_TRY(bytes_option(context, "max-bytes"))) limits.state = static_cast<double>(*bytes);
  if (auto bytes = NABLA_TRY(bytes_option(context, "max-memory"))) limits.memory = static_cast<double>(*bytes);
  if (limits.state < kNever && limits.memory < kNever)
    return error(Code::kBadOption, "auto-shard: max-bytes and max-memory: the latter counts the state, too");
  ir::Target target = context.target;
  if (const std::string& name = context.options.at("target"); !name.empty()) {
    ir::Target named = NABLA_TRY(ir::find_target(name));
    named.rates = target.rates, target = std::move(named);  // of a tuning file
  }
  ProgramGraph graph = NABLA_TRY(graph_of(module));
  FoundLayouts found = NABLA_TRY(search_layouts(module, graph, limits, target));
  ir::Module out = annotated(module, graph, found, context.ops);
  context.texts["plan"] = plan_text(out, found);
  context.texts["memory"] = fmt::format("{:.0f}", found.state_bytes + found.kept_bytes);
  context.remarks.push_back(
      fmt::format("auto-shard: exchanges {:.3g} us, products {:.3g} us in a run of every entry, {:.0f} bytes of state on a rank; "
                  "{} choices in {} classes, {} of them solved with {} columns",
                  found.exchange_us, found.product_us, found.state_bytes, found.search.states.size(), found.search.classes,
                  found.search.left, found.search.columns));
  return out;
}

}  // namespace nabla::passes
