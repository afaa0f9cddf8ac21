// Every op with a rule of its own, in many shapes under many layouts: what ranks compute is what one computes.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "passes/shard/rules/rules.h"
#include "tests/property/driver.h"
#include "tests/shard/rules_run.h"
#include "tests/shard/sharded_run.h"
#include "tests/transforms/random_function.h"

namespace nabla::shard_tests {
namespace {

class RuledOps : public testing::TestWithParam<std::string> {};

TEST_P(RuledOps, AreTheSame) {
  const ir::OpDef& op = ops::all_ops().get(GetParam());
  for (const property::Case& c : property::cases_of(op, 80, property::Precision::kF64Only)) {
    if (!is_comparable(c)) continue;
    expect_same(of_case(c, true, 10));
    if (HasFatalFailure()) return;
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
    std::vector<int64_t> wrt = differentiable(c);
    if (!is_comparable(c) || wrt.empty()) continue;
    ir::Function f = property::single(c).function;
    f.name = "f";
    f.results.resize(1);
    ir::Module m = c.module;
    m.stage = ir::Stage::kTraced;
    m.set(std::make_shared<const ir::Function>(f));
    add_gradient(m, wrt);
    m = transforms::flattened(m);
    std::vector<Literal> args = c.values(false), expected = transforms::run(m, "g", args);
    expect_same({c.str(), m, "g", args, expected, property::Tolerance{.relative = 1e-9, .least_scale = 1}, c.seed, 5, false,
                 [&](const ir::Mesh& mesh, ir::Rng& rng) {
                   ir::Module laid = m;
                   lay_out_as(laid, "g", laid_out(f, mesh, rng));
                   return *laid.find("g");
                 }});
    if (HasFatalFailure()) return;
    ++compared;
  }
  bool whole = op.name == "argmax" || op.name == "argmin" || op.name == "cumargmax" || op.name == "cumargmin";
  EXPECT_EQ(compared > 0, !whole && op.name != "attention_grad");
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const ir::OpDef& op : ops::all_ops().all())
    if (op.rank_rule != ir::RankRule::kNone) out.push_back(op.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Ops, RuledOps, testing::ValuesIn(names()), [](const auto& info) { return info.param; });

TEST(RuledOps, HaveARowForTheirRule) {
  for (const std::string& name : names()) {
    const ir::OpDef& op = ops::all_ops().get(name);
    const passes::OpRule* rule = passes::rule_of(op);
    ASSERT_TRUE(rule) << name;
    EXPECT_EQ(rule->rule, op.rank_rule) << name;
  }
  EXPECT_EQ(passes::rule_of(ops::all_ops().get("add")), nullptr);
}

}  // namespace
}  // namespace nabla::shard_tests
