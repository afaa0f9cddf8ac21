#include "passes/shard/partition.h"

#include <functional>
#include <utility>

#include "passes/rewrite.h"
#include "passes/shard/granulate_sums.h"
#include "passes/shard/layout.h"
#include "passes/shard/layout_nodes.h"
#include "passes/shard/local_symbols.h"
#include "passes/shard/manual_regions.h"
#include "passes/shard/microbatch.h"
#include "passes/shard/plan_partition.h"
#include "passes/shard/sum_points.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::FunctionPtr;
using ir::Mesh;

using SeePlan = std::function<void(const ir::Function& f, const PartitionPlan& plan)>;

// Makes the functions of a sharded module local in `out`. `see` gets each plan.
Status make_local(const ir::Module& sharded, const RankSymbols& rank, ir::Module& out, PassContext& context, const SeePlan& see = nullptr) {
  const Mesh& mesh = *sharded.mesh();
  const GradSync exchange = grad_sync_of(context.options);
  const int64_t most = context.options.max_gather_bytes.count;
  for (ir::StateLeaf& leaf : out.state) {
    const ir::StateLeaf& whole = sharded.state[static_cast<size_t>(&leaf - out.state.data())];
    leaf.type = local_type(mesh, leaf.type, layout_of(whole.sharding, leaf.type.rank()));
  }
  // Callees first: a node's types are those of its functions.
  PartitionContext partition{sharded, out, mesh, rank, context, most, {}};
  std::map<std::string, ir::ControlFlow> bodies = bodies_of(sharded);
  for (const FunctionPtr& f : NABLA_TRY(bottom_up(sharded))) {
    ScopedActivity activity("partition on @" + f->name);
    PartitionPlan plan = NABLA_TRY(plan_partition(*f, partition));
    if (auto loop = bodies.find(f->name); loop != bodies.end() && !plan.begun.empty()) {
      auto with = [&](const LoopSums& left) { return plan_partition(*f, partition, left, static_cast<size_t>(loop->second.consts)); };
      auto pending_with = [&](const LoopSums& left) -> Result<std::vector<Axes>> { return NABLA_TRY(with(left)).pending_results; };
      LoopSums left = NABLA_TRY(loop_sums({*f, loop->second, mesh, exchange, plan.begun, plan.pending_results}, pending_with));
      plan = NABLA_TRY(with(left));
      if (!left.empty()) partition.bodies[f->name] = std::move(left);
    }
    out.set(NABLA_TRY(emit_partition(plan, *f, partition)));
    context.remarks.insert(context.remarks.end(), plan.remarks.begin(), plan.remarks.end());
    if (see) see(*f, plan);
  }
  return Ok{};
}

// Plans the functions of a sharded module as `partition` does.
Status plan_all(const ir::Module& module, PassContext& context, const SeePlan& see) {
  const ir::Module sharded = with_local_symbols(module);
  ir::Module out = without_layouts(sharded);
  RankSymbols rank(*sharded.mesh());
  out.symbols.insert(out.symbols.end(), rank.all().begin(), rank.all().end());
  return make_local(sharded, rank, out, context, see);
}

}  // namespace

Result<PendingSums> pending_sums(const ir::Module& module, PassContext& context) {
  PendingSums out;
  if (!module.mesh()) return out;
  (void)NABLA_TRY(plan_all(module, context, [&](const ir::Function& f, const PartitionPlan& plan) { out[f.name] = plan.made_pending; }));
  return out;
}

Result<std::string> partition_text(const ir::Module& module, PassContext& context) {
  std::string out;
  if (!module.mesh()) return out;
  (void)NABLA_TRY(plan_all(module, context, [&](const ir::Function& f, const PartitionPlan& plan) { out += str(plan, f); }));
  return out;
}

Result<ir::Module> partition(const ir::Module& given, PassContext& context) {
  bool once = given.mesh() && given.mesh()->temporal() && given.mesh()->temporal()->size == 1;
  const ir::Module module = once ? without_temporal_axes(given) : given;
  if (!module.mesh()) {
    ir::Module out = without_layouts(module);
    for (FunctionPtr& f : out.functions) f = without_shard_nodes(f, module, context.ops);
    return out;
  }
  (void)NABLA_TRY(check_collectives(module));
  (void)NABLA_TRY(check_reduce_dtype(module, context));
  const ir::Module sharded = with_local_symbols(module);
  ir::Module out = without_layouts(sharded);
  const Mesh& mesh = *sharded.mesh();
  RankSymbols rank(mesh);
  out.symbols.insert(out.symbols.end(), rank.all().begin(), rank.all().end());
  (void)NABLA_TRY(make_local(sharded, rank, out, context));
  if (context.options.deterministic) (void)NABLA_TRY(check_deterministic(out, context));
  if (!mesh.temporal()) return out;
  Status looped = add_microbatch_loops(sharded, grad_sync_of(context.options), out, context.ops);
  if (looped.ok()) return out;
  if (context.options.deterministic) note_deterministic(looped.errors(), mesh.temporal()->name);
  return looped.errors();
}

}  // namespace nabla::passes
