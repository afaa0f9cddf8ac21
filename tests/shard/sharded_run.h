// A program on the ranks of a mesh, under the interpreter.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"

namespace nabla::shard_tests {

struct ShardedRun {
  bool padded = false;  ///< pad-shards had something to do
  ir::Module sharded, local;
  std::vector<Literal> results;  ///< of all ranks, joined
  std::vector<std::string> remarks;
};

/// Propagates the layouts of a flat module, partitions it, and runs the function on every rank: arguments are cut as its
/// parameters are laid out, results joined as its results are.
Result<ShardedRun> run_sharded(const ir::Module& flat, const std::string& function, const std::vector<Literal>& args);

/// Runs a function of a local module, which passes have made of `sharded`, in the same way.
Result<std::vector<Literal>> run_local(const ir::Module& sharded, const ir::Module& local, const std::string& function,
                                       const std::vector<Literal>& args);

/// The ops of programs for all ranks that can be run.
std::vector<std::string> names_of_sharded_ops();
/// A layout that is legal for the type: axes that divide extents, each once at most, some dimensions closed. With
/// `allow_padding` they need not divide.
ir::ShardingRef random_layout(const ir::Mesh& mesh, const ir::Type& type, ir::Rng& rng, bool allow_padding = false);
/// The function with random layouts of its parameters, and of some other values as `shard` nodes would say it.
ir::Function laid_out(const ir::Function& f, const ir::Mesh& mesh, ir::Rng& rng, bool allow_padding = false);

}  // namespace nabla::shard_tests
