// Random programs under random layouts on small meshes: their results are those of one rank.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "tests/property/compare.h"
#include "tests/shard/sharded_run.h"
#include "tests/transforms/random_function.h"
#include "tests/transforms/random_program.h"

namespace nabla::shard_tests {
namespace {

const ir::Mesh kMeshes[] = {{"pair", {{"a", 2}}, nullptr},
                            {"three", {{"a", 3}}, nullptr},
                            {"square", {{"a", 2}, {"b", 2}}, nullptr},
                            {"six", {{"a", 2}, {"b", 3}}, nullptr}};

uint64_t contradictions = 0;

// f64 throughout: only the order of sums differs.
void expect_same(const ir::Module& flat, const std::string& function, const std::vector<Literal>& args,
                 const std::string& what) {
  std::vector<Literal> expected = transforms::run(flat, function, args);
  Result<ShardedRun> got = run_sharded(flat, function, args);
  // The random layouts of a loop's carries may contradict each other.
  if (!got.ok() && got.errors()[0].code == Code::kBadSharding) return void(++contradictions);
  ASSERT_TRUE(got.ok()) << what << to_string(got.errors()) << print(flat);
  auto text = property::difference(expected, got->results, property::Tolerance{1e-9});
  ASSERT_FALSE(text) << what << ": " << *text << "\n" << print(got->sharded) << print(got->local);
}

TEST(Sharding, RandomFunctionsAndTheirGradientsAreTheSame) {
  for (uint64_t seed = 1; seed <= samples(120); ++seed) {
    ir::Module m;
    transforms::add(m, transforms::random_function("f", seed, 4 + static_cast<int>(seed % 12)));
    transforms::add_wrapper(m, "g", "grad", "f", {{"wrt", ir::Ints{0, 1, 2}}});
    m = transforms::flattened(m);
    const ir::Mesh& mesh = kMeshes[seed % 4];
    m.meshes = {mesh};
    ir::Rng rng(seed);
    for (const char* name : {"f", "g"}) {
      m.set(std::make_shared<const ir::Function>(laid_out(*m.find(name), mesh, rng)));
      expect_same(m, name, transforms::random_args(*m.find(name), seed),
                  fmt::format("seed {} @{} on {}", seed, name, mesh.name));
    }
  }
}

TEST(Sharding, LoopsAndBranchesAreTheSame) {
  for (uint64_t seed = 1; seed <= samples(60); ++seed) {
    ir::Module m = transforms::flattened(transforms::random_program("f", seed, 5, true));
    const ir::Mesh& mesh = kMeshes[seed % 2 == 0 ? 1 : 3];
    m.meshes = {mesh};
    ir::Rng rng(seed);
    m.set(std::make_shared<const ir::Function>(laid_out(*m.find("f"), mesh, rng)));
    expect_same(m, "f", transforms::random_args(*m.find("f"), seed), fmt::format("seed {} on {}", seed, mesh.name));
  }
  EXPECT_LE(contradictions, samples(15));
}

}  // namespace
}  // namespace nabla::shard_tests
