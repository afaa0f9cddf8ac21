// Random programs under layouts that auto-shard finds: their results are those of one rank.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "passes/auto_shard/auto_shard.h"
#include "tests/pass_options.h"
#include "tests/property/compare.h"
#include "tests/shard/sharded_run.h"
#include "tests/transforms/random_function.h"
#include "tests/transforms/random_program.h"

namespace nabla::shard_tests {
namespace {

const ir::Mesh kMeshes[] = {{"pair", {{"a", 2}}, nullptr},
                            {"square", {{"a", 2}, {"b", 2}}, nullptr},
                            {"six", {{"a", 2}, {"b", 3}}, nullptr}};

Result<ir::Module> searched(const ir::Module& m, const std::string& most) {
  ir::Target target = NABLA_TRY(ir::find_target("cpu"));
  passes::PassContext context{ops::all_ops(), target, options_of("auto-shard", {{"search", "true"}, {"max-bytes", most}})};
  return passes::auto_shard(m, context);
}

int cut = 0;  // leaves

// The function's parameters are state, of which a rank may keep half, if that can be: programs as small as these exchange
// nothing of themselves.
void expect_same(ir::Module m, const std::string& function, uint64_t seed) {
  std::string what = fmt::format("seed {} @{} on {}", seed, function, m.mesh()->name);
  const ir::Function& f = *m.find(function);
  std::vector<Literal> args = transforms::random_args(f, seed);
  std::vector<Literal> expected = transforms::run(m, function, args);
  ir::Entry entry{"run", function};
  int64_t bytes = 0;
  for (size_t p = 0; p < f.params.size(); ++p) {
    entry.reads.push_back(static_cast<int>(p));
    m.state.push_back({fmt::format("p{}", p), f.type(f.params[p])});
    bytes += f.type(f.params[p]).bytes().value();
  }
  for (size_t r = 0; r < f.results.size(); ++r) entry.outputs.push_back(fmt::format("out{}", r));
  m.entries = {entry};
  Result<ir::Module> found = searched(m, fmt::format("{}", bytes / 2));
  if (!found.ok()) found = searched(m, "");
  ASSERT_TRUE(found.ok()) << what << to_string(found.errors()) << print(m);
  Status valid = ir::verify(*found);
  ASSERT_TRUE(valid.ok()) << what << to_string(valid.errors()) << print(*found);
  for (const ir::StateLeaf& leaf : found->state) cut += leaf.sharding && !ir::axes_of(*leaf.sharding).empty();
  Result<ShardedRun> got = run_sharded(*found, function, args);
  ASSERT_TRUE(got.ok()) << what << to_string(got.errors()) << print(*found);
  auto text = property::difference(expected, got->results, property::Tolerance{1e-9});
  ASSERT_FALSE(text) << what << ": " << *text << "\n" << print(got->sharded) << print(got->local);
}

TEST(Searched, RandomFunctionsAndTheirGradientsAreTheSame) {
  for (uint64_t seed = 1; seed <= samples(60) && !HasFatalFailure(); ++seed) {
    ir::Module m;
    transforms::add(m, transforms::random_function("f", seed, 4 + static_cast<int>(seed % 12)));
    transforms::add_wrapper(m, "g", "grad", "f", {{"wrt", ir::Ints{0, 1, 2}}});
    m = transforms::flattened(m);
    m.meshes = {kMeshes[seed % 3]};
    for (const char* name : {"f", "g"}) expect_same(m, name, seed);
  }
  EXPECT_GE(cut, 30);
}

TEST(Searched, LoopsAndBranchesAreTheSame) {
  for (uint64_t seed = 1; seed <= samples(60) && !HasFatalFailure(); ++seed) {
    ir::Module m = transforms::flattened(transforms::random_program("f", seed, 5, true));
    m.meshes = {kMeshes[seed % 3]};
    expect_same(m, "f", seed);
  }
}

}  // namespace
}  // namespace nabla::shard_tests
