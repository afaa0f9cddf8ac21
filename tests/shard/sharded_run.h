// A program on the ranks of a mesh, under the interpreter.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"
#include "ir/remark.h"
#include "tests/property/cases.h"
#include "tests/property/compare.h"

namespace nabla::shard_tests {

/// Meshes of 2, 3, 4, 2x2 and 2x4 ranks, on which generated tests run.
const std::vector<ir::Mesh>& meshes();
/// The number of programs or layouts that a generated test draws. With --config=nightly it is ten times `of_every_run`.
uint64_t samples(uint64_t of_every_run);

struct ShardedRun {
  bool padded = false;  ///< pad-shards had something to do
  ir::Module sharded, local;
  std::vector<Literal> results;  ///< of all ranks, joined
  std::vector<ir::Remark> remarks;
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


/// All legal layouts of the parameters of a function, closed and of whole axes; nothing where there are more than `most`.
std::vector<std::vector<ir::ShardingRef>> all_layouts(const ir::Mesh& mesh, const ir::Function& f, size_t most);

/// An op's function on ranks.
struct Comparison {
  std::string what;  ///< in messages
  ir::Module flat;
  std::string function;
  std::vector<Literal> args, expected;
  std::optional<property::Tolerance> tolerance = std::nullopt;
  uint64_t seed = 0;
  uint64_t draws = 5;
  bool may_contradict = false;  ///< layouts of loops' carries and results do, which is E0210
  /// The function with layouts of a draw.
  std::function<ir::Function(const ir::Mesh&, ir::Rng&)> draw;
};
/// Runs it on the meshes in turn under layouts that are drawn, and with --config=nightly on each under all layouts of its
/// parameters, as long as they are few. Test failures where results are not as expected.
void expect_same(const Comparison& c);
/// Of the op of a case, against the reference, on awkward values too if asked.
Comparison of_case(const property::Case& c, bool awkward, uint64_t draws);
/// Whether a case can be compared so: of static sizes and no narrow floats.
bool is_comparable(const property::Case& c);

}  // namespace nabla::shard_tests
