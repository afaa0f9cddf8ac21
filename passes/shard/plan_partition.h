// From a sharded function to the plan of what one rank computes of it, and from the plan to the local function.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/shard/loop_sums.h"
#include "passes/shard/partition_plan.h"

namespace nabla::passes {

/// By function, of those that are bodies of loops.
using SumsOfBodies = std::map<std::string, LoopSums>;

/// What all functions of a module are partitioned with.
struct PartitionContext {
  const ir::Module& sharded;
  ir::Module& local;  ///< has the callees already; emission adds functions to it
  const ir::Mesh& mesh;
  const RankSymbols& rank;
  const PassContext& pass;
  int64_t most;  ///< bytes of a value that may be gathered for an op that cannot be split
  SumsOfBodies bodies;
};

/// Decides how ranks compute the function. Parameters and results have the layouts of the sharded function's values, but for the sums of
/// `pending`, which a loop leaves pending in its body. `consts`: the number of the body's parameters before its carries.
/// E0402 if more than `context.most` bytes would have to be gathered. Nothing is emitted, and the context stays as it is.
Result<PartitionPlan> plan_partition(const ir::Function& f, const PartitionContext& context, const LoopSums& pending = {},
                                     size_t consts = 0);

/// Emits the local function as the plan says.
Result<ir::FunctionPtr> emit_partition(const PartitionPlan& plan, const ir::Function& f, PartitionContext& context);

}  // namespace nabla::passes
