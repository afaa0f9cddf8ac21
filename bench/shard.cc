// Propagation and partition of deep programs.
#include <algorithm>

#include "bench/bench.h"
#include "bench/deep_module.h"
#include "cli/driver/compile.h"
#include "ir/ops/all_ops.h"
#include "passes/pass_manager.h"

namespace nabla::bench {
namespace {

// Data parallel over dp, the feed-forward parts tensor parallel over tp.
Result<ir::Module> laid_out(int layers, const ir::Target& target) {
  ir::Module m = NABLA_TRY(driver::simplify_module(deep_module(layers), target, {}, ir::Stage::kFlat));
  m.meshes = {{"pod", {{"dp", 2}, {"tp", 4}}, nullptr}};
  for (ir::StateLeaf& leaf : m.state)
    if (leaf.name.ends_with(".up"))
      leaf.sharding = std::make_shared<const ir::Sharding>(ir::Sharding{{{{}, true}, {{{"tp"}}}}, {}});
  ir::Function step = *m.find(m.find_entry("step")->function);
  step.values[step.params.back()].sharding =
      std::make_shared<const ir::Sharding>(ir::Sharding{{{{{"dp"}}}, {{}, true}, {{}, true}}, {}});
  m.set(std::make_shared<const ir::Function>(std::move(step)));
  return m;
}

Result<std::vector<double>> shard_seconds(const std::vector<int>& depths) {
  ir::Target target = NABLA_TRY(ir::find_target("cpu"));
  std::vector<ir::Module> modules;
  for (int layers : depths) modules.push_back(NABLA_TRY(laid_out(layers, target)));
  std::vector<double> best(depths.size(), 1e9);
  for (int round = 0; round < 5; ++round)
    for (size_t i = 0; i < depths.size(); ++i) {
      double begin = now();
      NABLA_TRY(passes::run_passes(modules[i], {{"propagate"}, {"partition"}}, ops::all_ops(), target));
      best[i] = std::min(best[i], now() - begin);
    }
  return best;
}

Result<Measurement> shard_48() { return against_budget(NABLA_TRY(shard_seconds({48}))[0], "s", 1); }

Result<Measurement> scaling() {
  std::vector<int> depths{12, 24, 48, 96};
  return against_budget(growth(depths, NABLA_TRY(shard_seconds(depths))), "exponent", 1.15);
}

}  // namespace

std::vector<Bench> shard_benches() {
  return {
      {"shard_48_layers_s", "propagation and partition of 48 blocks and their gradient over 8 ranks",
       [](const Paths&) { return shard_48(); }},
      {"shard_scaling", "growth of that with 12 to 96 blocks", [](const Paths&) { return scaling(); }},
  };
}

}  // namespace nabla::bench
