// Temporal axes: a program over microbatches computes what it computes over the batch.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/reference/interpreter.h"
#include "ir/text.h"
#include "tests/property/compare.h"
#include "tests/shard/sharded_run.h"
#include "tests/transforms/random_function.h"

namespace nabla::shard_tests {
namespace {

ir::Module parsed(const std::string& text) { return ir::parse_module(text, "test.nbl", ops::all_ops()).value(); }

// In the function that is run.
int64_t count(const ir::Module& m, const std::string& op) {
  int64_t out = 0;
  for (const ir::Node& n : m.find("f")->nodes) out += n.op->name == op;
  return out;
}

std::string over(std::string text, const std::string& mesh) {
  text.replace(text.find("MESH"), 4, mesh);
  return text;
}

// A step of gradient descent with dropout: a draw, a mean, a maximum, a result per sample, a sum over everything.
constexpr const char* kStep = R"(nabla 1 traced
mesh pod = {MESH}

func @loss(%w: f32[8,4], %x: f32[24,8], %y: f32[24,4], %key: u32[2]) {
  %u = rng_uniform(%key) {shape=[24, 4], dtype=f32}
  %half = constant() {value=f32[24,4] {splat 0.5}}
  %p = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %zero = constant() {value=f32[24,4] {splat 0}}
  %keep = gt(%u, %half)
  %h = select(%keep, %p, %zero)
  %d = sub(%h, %y)
  %s = mul(%d, %d)
  %sum = reduce_sum(%s) {axes=[0, 1]}
  %n = constant() {value=f32[] {0.01}}
  %l = mul(%sum, %n)
  return %l
}
func @f(%w: f32[8,4], %x: f32[24@{LAYOUT},8], %y: f32[24,4], %key: u32[2]) {
  %l, %g = value_and_grad(%w, %x, %y, %key) {callee=@loss, wrt=[0]}
  %rate = constant() {value=f32[8,4] {splat 0.1}}
  %step = mul(%g, %rate)
  %w1 = sub(%w, %step)
  %most = reduce_max(%x) {axes=[0, 1]}
  %rows = reduce_sum(%y) {axes=[1]}
  return %w1, %l, %most, %rows
}
)";

ir::Module step(const std::string& mesh, const std::string& layout) {
  std::string text = over(kStep, mesh);
  text.replace(text.find("LAYOUT"), 6, layout);
  return transforms::flattened(parsed(text));
}

TEST(Microbatches, AStepIsThatOfTheBatch) {
  struct Case {
    const char *mesh, *layout;
    int64_t all_reduces;
  };
  // Over ranks the gradient, the loss and the maximum are combined once, not once for each microbatch.
  for (const Case& c : {Case{"mb=4 temporal", "mb", 0}, Case{"mb=3 temporal", "mb", 0}, Case{"mb=1 temporal", "mb", 0},
                        Case{"dp=2, mb=4 temporal", "dp, mb", 3}, Case{"mb=2 temporal, dp=3", "dp, mb", 3}}) {
    ir::Module m = step(c.mesh, c.layout);
    std::vector<Literal> args = transforms::random_args(*m.find("f"), 7);
    std::vector<Literal> expected = transforms::run(m, "f", args);
    Result<ShardedRun> got = run_sharded(m, "f", args);
    ASSERT_TRUE(got.ok()) << c.mesh << to_string(got.errors());
    auto text = property::difference(expected, got->results, property::Tolerance{1e-5});
    EXPECT_FALSE(text) << c.mesh << ": " << *text << print(got->local);
    EXPECT_EQ(count(got->local, "scan"), std::string(c.mesh) == "mb=1 temporal" ? 0 : 1) << print(got->local);
    EXPECT_EQ(count(got->local, "all_reduce"), c.all_reduces) << print(got->local);
  }
}

std::string refusal(const std::string& body, const std::string& mesh = "mb=4 temporal",
                    const std::string& layout = "mb") {
  auto m = ir::parse_module("nabla 1 flat\nmesh pod = {" + mesh + "}\nstate w: f32[4]\nentry f calls @f {\n  reads w\n  inputs x\n" +
                                "  outputs y\n}\nfunc @f(%w: f32[4], %x: f32[8@{" + layout + "},4]) {\n" + body + "}\n",
                            "test.nbl", ops::all_ops());
  if (!m.ok()) return m.errors()[0].message;
  auto got = run_sharded(*m, "f", {Literal(DType::kF32, {4}), Literal(DType::kF32, {8, 4})});
  return got.ok() ? "ok" : got.errors()[0].message;
}

// What follows from inputs alone is known before the first microbatch.
TEST(Microbatches, WhatNeedsAllOfThemIsRefusedIfItFollowsFromState) {
  const std::string centred = " %m = reduce_max(%v) {axes=[0]}\n %b = broadcast_in_dim(%m) {dims=[1], shape=[8, 4]}\n"
                              " %y = sub(%x, %b)\n return %y\n";
  EXPECT_EQ(refusal(" %v = tanh(%x)\n" + centred), "ok");
  EXPECT_EQ(refusal(" %ws = broadcast_in_dim(%w) {dims=[1], shape=[8, 4]}\n %v = mul(%x, %ws)\n" + centred),
            "sub is not separable along the temporal axis mb of 4 microbatches: a microbatch needs what is combined over "
            "all of them (%4 is the result of reduce_max)");
}

// A closed layout of a value in the middle says how it lies over the ranks.
TEST(Microbatches, ConstraintsOnRanksLeaveThemApart) {
  std::string text = over(kStep, "dp=2, mb=4 temporal");
  text.replace(text.find("LAYOUT"), 6, "dp, mb");
  const std::string reader = "%d = sub(%h, %y)";
  text.replace(text.find(reader), reader.size(), "%c = shard(%h) {sharding=<dp, {}>}\n  %d = sub(%c, %y)");
  ir::Module m = transforms::flattened(parsed(text));
  std::vector<Literal> args = transforms::random_args(*m.find("f"), 7);
  Result<ShardedRun> got = run_sharded(m, "f", args);
  ASSERT_TRUE(got.ok()) << to_string(got.errors());
  auto differs = property::difference(transforms::run(m, "f", args), got->results, property::Tolerance{1e-5});
  EXPECT_FALSE(differs) << *differs << print(got->local);
  EXPECT_EQ(count(got->local, "all_reduce"), 3) << print(got->local);
  // Along the ranks alone: what is whole on each of them has no microbatches of its own, and what follows is not separable.
  const std::string apart = " %s = shard(%h) {sharding=<LAYOUT, {}>}\n %y = mul(%s, %h)\n return %y\n";
  auto with = [&](const std::string& layout) {
    std::string body = " %ws = broadcast_in_dim(%w) {dims=[1], shape=[8, 4]}\n %h = mul(%x, %ws)\n" + apart;
    return refusal(body.replace(body.find("LAYOUT"), 6, layout), "dp=2, mb=4 temporal", "dp, mb");
  };
  EXPECT_EQ(with("dp"), "ok");
  EXPECT_EQ(with("{dp, ?}"), "ok");
  EXPECT_EQ(with("{}"), "shard is not separable along the temporal axis mb of 4 microbatches: laid out as <{}, {}>, it puts them together "
                        "(%h is the result of mul)");
}

// Rows of samples and heads: a rank has some heads of every sample, so that its rows of the microbatches do not follow each other.
TEST(Microbatches, PositionsAmongSamplesAndHeadsAreSeparable) {
  for (const char* axis : {"0", "1"})
    for (const char* dtype : {"f32", "i32"}) {
      ir::Module m = parsed(fmt::format(
          "nabla 1 flat\nmesh pod = {{tp=2, mb=4 temporal}}\nfunc @f(%x: f32[4@mb,4@tp,3]) {{\n"
          "  %r = reshape(%x) {{shape=[16,3]}}\n  %i = iota() {{shape=[16,3], axis={}, dtype={}}}\n  %c = convert(%i) {{dtype=f32}}\n"
          "  %y = mul(%r, %c)\n  %b = reshape(%y) {{shape=[4,4,3]}}\n  %s = reduce_sum(%b) {{axes=[0, 2]}}\n  return %s, %b\n}}\n",
          axis, dtype));
      std::vector<Literal> args = transforms::random_args(*m.find("f"), 3);
      Result<ShardedRun> got = run_sharded(m, "f", args);
      ASSERT_TRUE(got.ok()) << to_string(got.errors()) << print(m);
      EXPECT_EQ(count(got->local, "scan"), 1) << print(got->local);
      auto text = property::difference(transforms::run(m, "f", args), got->results);
      EXPECT_FALSE(text) << *text << print(got->local);
    }
}

TEST(Microbatches, LayoutsPutThemLast) {
  EXPECT_EQ(refusal(" return %x\n", "dp=2, mb=4 temporal", "mb, dp"),
            "%x is parameter \"x\" of @f: the temporal axis mb stands before dp in {mb, dp}: it comes last");
  EXPECT_EQ(refusal(" return %x\n", "a=2 temporal, mb=4 temporal"),
            "mesh pod: a and mb are temporal: a mesh has one temporal axis");
}

// Random functions: what is separable gives the same results.
TEST(Microbatches, RandomFunctionsAreTheSame) {
  int run = 0;
  const ir::Mesh kMeshes[] = {{"one", {{"t", 2, true}}, nullptr}, {"two", {{"a", 2}, {"t", 2, true}}, nullptr}};
  for (uint64_t seed = 1; seed <= samples(150); ++seed) {
    ir::Module m;
    transforms::add(m, transforms::random_function("f", seed, 3 + static_cast<int>(seed % 8)));
    m = transforms::flattened(m);
    m.meshes = {kMeshes[seed % 2]};
    ir::Rng rng(seed);
    ir::Function f = *m.find("f");
    for (ir::ValueId id : f.params)
      if (rng() % 2 == 0) f.values[id].sharding = random_layout(m.meshes[0], f.type(id), rng);
    m.set(std::make_shared<const ir::Function>(f));
    std::vector<Literal> args = transforms::random_args(f, seed);
    Result<ShardedRun> got = run_sharded(m, "f", args);
    if (!got.ok() && got.errors()[0].code == Code::kBadSharding) continue;  // not separable, or contradictory
    ASSERT_TRUE(got.ok()) << "seed " << seed << to_string(got.errors()) << print(m);
    run += count(got->local, "scan") > 0;
    auto text = property::difference(transforms::run(m, "f", args), got->results, property::Tolerance{1e-9});
    ASSERT_FALSE(text) << "seed " << seed << ": " << *text << "\n" << print(got->sharded) << print(got->local);
  }
  EXPECT_GT(run, 20);
}

}  // namespace
}  // namespace nabla::shard_tests
