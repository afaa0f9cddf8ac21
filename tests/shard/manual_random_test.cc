// Random programs with loops and branches, a batch of them cut by hand: values and gradients are those of the whole batch.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "tests/property/compare.h"
#include "tests/shard/sharded_run.h"
#include "tests/transforms/random_program.h"

namespace nabla::shard_tests {
namespace {

using ir::FunctionBuilder;
using ir::FunctionRef;
using ir::Ints;
using ir::Val;

const ir::Type kWeights(DType::kF64, {3, 3});
ir::Type batch(int64_t rows) { return {DType::kF64, {rows, 3}}; }

// @NAME: (xs f64[rows,3], w) -> the sum of what f gives, over the batch and then, where `axis` is one, over ranks.
void add_sum(ir::Module& m, const std::string& name, int64_t rows, const std::string& axis) {
  FunctionBuilder b(name, ops::all_ops(), &m);
  Val xs = b.param("xs", batch(rows)), w = b.param("w", kWeights);
  std::vector<Val> made =
      b.add("vmap", {xs, w}, {{"callee", FunctionRef{"f"}}, {"in_axes", Ints{0, -1}}, {"out_axes", Ints{0, 0}}});
  Val sum = ir::reduce_sum(made[0], {0}) + ir::reduce_sum(ir::reduce_sum(made[1] * made[1], {1}), {0});
  if (!axis.empty()) sum = b.op("all_reduce", {sum}, {{"axes", ir::Axes{{axis}}}, {"shards", int64_t{2}}});
  transforms::add(m, b.finish({sum, made[1]}));
}

// @hand: the same of four rows, two on each rank along `a`.
void add_region(ir::Module& m) {
  FunctionBuilder b("hand", ops::all_ops(), &m);
  Val xs = b.param("xs", batch(4)), w = b.param("w", kWeights);
  ir::Sharding rows{{{{{"a"}}}, {}}, {}}, whole{{{}, {}}, {}}, scalar;
  std::vector<Val> made = b.add("shard_map", {xs, w},
                                {{"body", FunctionRef{"part"}},
                                 {"axes", ir::Axes{{"a"}}},
                                 {"sizes", Ints{2}},
                                 {"in", ir::Shardings{rows, whole}},
                                 {"out", ir::Shardings{scalar, rows}}});
  transforms::add(m, b.finish(made));
}

TEST(ManualRandom, ABatchThatIsCutByHand) {
  const ir::Mesh meshes[] = {{"pair", {{"a", 2}}, nullptr}, {"square", {{"b", 2}, {"a", 2}}, nullptr}};
  for (uint64_t seed = 1; seed <= samples(60); ++seed) {
    ir::Module m = transforms::random_program("f", seed, 4, false);
    m.meshes = {meshes[seed % 2]};
    add_sum(m, "part", 2, "a");
    add_sum(m, "whole", 4, "");
    add_region(m);
    for (const char* name : {"hand", "whole"})
      transforms::add_wrapper(m, std::string(name) + "_g", "value_and_grad", name, {{"wrt", Ints{0, 1}}});
    m = transforms::flattened(m);
    ir::Rng rng(seed);
    m.set(std::make_shared<const ir::Function>(laid_out(*m.find("hand_g"), m.meshes[0], rng)));
    std::vector<Literal> args = transforms::random_args(*m.find("hand_g"), seed);
    std::vector<Literal> expected = transforms::run(m, "whole_g", args), alone = transforms::run(m, "hand_g", args);
    auto text = property::difference(expected, alone, property::Tolerance{1e-9});
    ASSERT_FALSE(text) << "seed " << seed << ": " << *text << "\n" << print(m);
    Result<ShardedRun> got = run_sharded(m, "hand_g", args);
    if (!got.ok() && got.errors()[0].code == Code::kBadSharding) continue;  // the random layouts contradict each other
    ASSERT_TRUE(got.ok()) << "seed " << seed << to_string(got.errors()) << print(m);
    text = property::difference(expected, got->results, property::Tolerance{1e-9});
    ASSERT_FALSE(text) << "seed " << seed << ": " << *text << "\n" << print(got->sharded) << print(got->local);
  }
}

}  // namespace
}  // namespace nabla::shard_tests
