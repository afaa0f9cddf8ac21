#include "cli/driver/sharded_text.h"

#include <set>

#include "ir/ops/all_ops.h"
#include "passes/shard/partition.h"

namespace nabla::driver {

Result<std::string> sharded_text(const ir::Module& module, const ir::Target& target, ir::PrintOptions options) {
  if (module.stage != ir::Stage::kSharded || !module.mesh()) return ir::print(module, options);
  passes::PassContext context{ops::all_ops(), target};
  passes::PendingSums sums = NABLA_TRY(passes::pending_sums(module, context));
  options.comment = [&](const ir::Function& f, const ir::Node& node) {
    std::set<std::string> axes;
    auto of_function = sums.find(f.name);
    for (ir::ValueId id : node.results)
      if (of_function != sums.end() && !of_function->second[id].empty()) axes.insert(ir::str(of_function->second[id]));
    std::string out;
    for (const std::string& each : axes) out += fmt::format("{}sum over {} pending", out.empty() ? "" : ", ", each);
    return out;
  };
  return ir::print(module, options);
}

}  // namespace nabla::driver
