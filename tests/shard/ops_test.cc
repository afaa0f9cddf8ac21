// Every op under random layouts of its operands and results: the parts that ranks compute are those of the whole.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "tests/property/cases.h"
#include "tests/property/compare.h"
#include "tests/property/driver.h"
#include "tests/shard/sharded_run.h"

namespace nabla::shard_tests {
namespace {

const ir::Mesh kMeshes[] = {{"pair", {{"a", 2}}, nullptr},
                            {"three", {{"a", 3}}, nullptr},
                            {"four", {{"a", 4}}, nullptr},
                            {"square", {{"a", 2}, {"b", 2}}, nullptr},
                            {"eight", {{"a", 2}, {"b", 4}}, nullptr}};

class ShardedOps : public testing::TestWithParam<std::string> {};

TEST_P(ShardedOps, AreTheSame) {
  const ir::OpDef& op = ops::all_ops().get(GetParam());
  for (const property::Case& c : property::cases_of(op, 6, property::Precision::kAll)) {
    std::vector<ir::Type> types = c.types();
    types.insert(types.end(), c.results.begin(), c.results.end());
    bool is_static = std::all_of(types.begin(), types.end(), [](const ir::Type& t) { return t.is_static(); });
    if (!is_static || property::is_narrow(c) || (op.lacks_reference && !op.lacks_reference(c.attrs).empty())) continue;
    std::vector<Literal> args = c.values(false);
    std::vector<Literal> expected = property::run_reference(c.typed(), args, c.module);
    for (size_t draw = 0; draw < 5; ++draw) {
      const ir::Mesh& mesh = kMeshes[(draw + c.seed) % 5];
      ir::Module m = c.module;
      m.stage = ir::Stage::kFlat;
      m.meshes = {mesh};
      ir::Rng rng(c.seed * 31 + draw);
      m.set(std::make_shared<const ir::Function>(laid_out(property::single(c).function, mesh, rng)));
      Result<ShardedRun> got = run_sharded(m, "single", args);
      ASSERT_TRUE(got.ok()) << c.str() << to_string(got.errors()) << print(m);
      auto text = property::difference(expected, got->results);
      ASSERT_FALSE(text) << c.str() << ": " << *text << "\n" << print(got->sharded) << print(got->local);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, ShardedOps, testing::ValuesIn(names_of_sharded_ops()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace nabla::shard_tests
