// What one rank computes of one function.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/module.h"
#include "passes/pass.h"
#include "passes/shard/loop_sums.h"
#include "passes/shard/reshard.h"

namespace nabla::passes {

/// By function, of those that are bodies of loops.
using SumsOfBodies = std::map<std::string, LoopSums>;

/// What all functions of a module are partitioned with.
struct PartitionContext {
  const ir::Module& sharded;
  ir::Module& local;  ///< of which the callees are there already; rules add functions to it
  const ir::Mesh& mesh;
  const RankSymbols& rank;
  PassContext& pass;
  int64_t most;  ///< bytes of a value that may be gathered for an op that cannot be split
  SumsOfBodies bodies;
};

struct PartitionedFunction {
  ir::FunctionPtr function;
  std::map<std::string, ir::Axes> begun;   ///< the axes of sums that were begun in it, each list once, by its text
  std::vector<ir::Axes> made_pending;      ///< by value: what is pending in it as it is made, before somebody needs it whole
  std::vector<ir::Axes> pending_results;   ///< by result: the same before it has its layout, if a sum that was begun here is in it
};

/// The function's local form. Parameters and results have the layouts of the sharded function's values, but for what is
/// pending in a body: `pending`. The first result of a body with `consts` parameters before its carries is that of the
/// first carry.
Result<PartitionedFunction> partition_function(const ir::Function& f, PartitionContext& context, const LoopSums& pending = {},
                                               size_t consts = 0);

}  // namespace nabla::passes
