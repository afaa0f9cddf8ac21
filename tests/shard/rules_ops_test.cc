// Every op with a rule of its own, in many shapes under many layouts: what ranks compute is what one computes.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "passes/shard/rules/rules.h"
#include "tests/property/cases.h"
#include "tests/property/compare.h"
#include "tests/property/driver.h"
#include "tests/shard/rules_run.h"
#include "tests/shard/sharded_run.h"
#include "tests/transforms/random_function.h"

namespace nabla::shard_tests {
namespace {

const ir::Mesh kMeshes[] = {{"pair", {{"a", 2}}, nullptr},
                            {"three", {{"a", 3}}, nullptr},
                            {"four", {{"a", 4}}, nullptr},
                            {"square", {{"a", 2}, {"b", 2}}, nullptr},
                            {"eight", {{"a", 2}, {"b", 4}}, nullptr}};

class RuledOps : public testing::TestWithParam<std::string> {};

TEST_P(RuledOps, AreTheSame) {
  const ir::OpDef& op = ops::all_ops().get(GetParam());
  for (const property::Case& c : property::cases_of(op, 80, property::Precision::kF64Only)) {
    std::vector<ir::Type> types = c.types();
    types.insert(types.end(), c.results.begin(), c.results.end());
    bool is_static = std::all_of(types.begin(), types.end(), [](const ir::Type& t) { return t.is_static(); });
    if (!is_static || property::is_narrow(c)) continue;
    std::vector<Literal> args = c.values(true);
    std::vector<Literal> expected = property::run_reference(c.typed(), args, c.module);
    for (size_t draw = 0; draw < 10; ++draw) {
      const ir::Mesh& mesh = kMeshes[draw % 5];
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

// Which operands have a gradient.
std::vector<int64_t> differentiable(const property::Case& c) {
  std::vector<int64_t> out;
  bool chosen =
      c.op->name == "select_and_scatter" || c.op->name == "window_gather_max";  // their first operand has none
  bool saved = c.op->name == "attention_grad";                                  // is a gradient, and has none itself
  for (size_t i = chosen ? 1 : 0; i < c.operands.size() && !saved; ++i)
    if (is_float(c.operands[i].type.dtype)) out.push_back(static_cast<int64_t>(i));
  return is_float(c.results[0].dtype) ? out : std::vector<int64_t>{};
}

TEST_P(RuledOps, HaveTheSameGradients) {
  const ir::OpDef& op = ops::all_ops().get(GetParam());
  int compared = 0;
  for (const property::Case& c : property::cases_of(op, 25, property::Precision::kF64Only)) {
    std::vector<ir::Type> types = c.types();
    types.insert(types.end(), c.results.begin(), c.results.end());
    bool is_static = std::all_of(types.begin(), types.end(), [](const ir::Type& t) { return t.is_static(); });
    std::vector<int64_t> wrt = differentiable(c);
    if (!is_static || property::is_narrow(c) || wrt.empty()) continue;
    ir::Function f = property::single(c).function;
    f.name = "f";
    f.results.resize(1);
    ir::Module m = c.module;
    m.stage = ir::Stage::kTraced;
    m.set(std::make_shared<const ir::Function>(f));
    add_gradient(m, wrt);
    m = transforms::flattened(m);
    std::vector<Literal> args = c.values(false), expected = transforms::run(m, "g", args);
    for (size_t draw = 0; draw < 5; ++draw, ++compared) {
      m.meshes = {kMeshes[draw]};
      ir::Rng rng(c.seed * 31 + draw);
      lay_out_as(m, "g", laid_out(f, kMeshes[draw], rng));
      Result<ShardedRun> got = run_sharded(m, "g", args);
      ASSERT_TRUE(got.ok()) << c.str() << to_string(got.errors()) << print(m);
      auto text = property::difference(expected, got->results, property::Tolerance{.relative = 1e-9, .least_scale = 1});
      ASSERT_FALSE(text) << c.str() << ": " << *text << "\n" << print(got->sharded) << print(got->local);
    }
  }
  bool whole = op.name == "argmax" || op.name == "argmin" || op.name == "cumargmax" || op.name == "cumargmin";
  EXPECT_EQ(compared > 0, !whole && op.name != "attention_grad");
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const passes::OpRule& rule : passes::op_rules()) out.push_back(rule.op);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Ops, RuledOps, testing::ValuesIn(names()), [](const auto& info) { return info.param; });

// The table is searched by name.
TEST(RuledOps, AreSortedAndKnown) {
  std::vector<std::string> all = names();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  for (const std::string& name : all) {
    EXPECT_TRUE(ops::all_ops().find(name)) << name;
    ASSERT_TRUE(passes::rule_of(name)) << name;
    EXPECT_EQ(passes::rule_of(name)->op, name);
  }
  EXPECT_EQ(passes::rule_of("add"), nullptr);
}

}  // namespace
}  // namespace nabla::shard_tests
