#include "passes/shard/propagate.h"

#include "passes/shard/manual_regions.h"
#include "passes/shard/merge_cuts.h"
#include "passes/shard/open_composites.h"
#include "passes/shard/own_results.h"
#include "passes/shard/propagation.h"

namespace nabla::passes {
namespace {

struct Propagated {
  std::shared_ptr<const ir::Module> flat;  // regions placed, composites opened, cuts merged
  std::unique_ptr<Propagation> by;
  ir::Module sharded;
};

Result<Propagated> propagated(const ir::Module& module, bool explains, PassContext& context) {
  ir::Module placed = NABLA_TRY(place_regions(with_own_results(module, context.ops), context.ops));
  Propagated out{std::make_shared<const ir::Module>(std::move(placed)), nullptr, {}};
  size_t remarks = context.remarks.size();
  while (true) {
    out.by = std::make_unique<Propagation>(*out.flat, explains, context);
    out.sharded = NABLA_TRY(out.by->run());
    auto next = open_composites(*out.flat, out.sharded, context);
    if (!next) next = merge_cuts(*out.flat, out.sharded, context);
    if (!next) return out;
    out.flat = std::move(next);
    context.remarks.resize(remarks);
  }
}

}  // namespace

Result<ir::Module> propagate(const ir::Module& module, PassContext& context) {
  if (module.mesh()) return std::move(NABLA_TRY(propagated(module, false, context)).sharded);
  ir::Module out = module;
  out.stage = ir::Stage::kSharded;
  return out;
}

Result<ir::Module> propagated_layouts(const ir::Module& module, PassContext& context) {
  size_t remarks = context.remarks.size();
  Result<ir::Module> out = Propagation(module, false, context).run();
  context.remarks.resize(remarks);
  return out;
}

Result<std::string> explain_layout(const ir::Module& module, const std::string& function, const std::string& value,
                                   PassContext& context) {
  if (!module.mesh()) return error(Code::kBadSharding, "the module has no mesh, so that nothing is laid out");
  Propagated made = NABLA_TRY(propagated(module, true, context));
  const ir::Function* f = made.sharded.find(function);
  if (!f) return error(Code::kUnknownName, "there is no function @{}", function);
  std::vector<std::string> known;
  for (size_t v = 0; v < f->values.size(); ++v) {
    std::string name = ir::value_name(*f, static_cast<ir::ValueId>(v));
    if (name == value || name == "%" + value) return made.by->explain(function, static_cast<ir::ValueId>(v));
    known.push_back(name);
  }
  Diagnostic d = error(Code::kUnknownName, "@{} has no value {}{}", function, value, did_you_mean(value, known));
  d.help = "`nablac opt --pipeline-to sharded` prints all values with their layouts";
  return d;
}

}  // namespace nabla::passes
