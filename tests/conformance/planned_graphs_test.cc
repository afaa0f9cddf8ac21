// Fusion, lowering and the memory plan against the reference interpreter, without a compiler: random functions with
// their gradients, and training steps that update their state in place.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "passes/pass_manager.h"
#include "passes/simplify/simplify.h"
#include "tests/conformance/interpret_planned.h"
#include "tests/property/compare.h"
#include "tests/transforms/random_function.h"

namespace nabla {
namespace {

using transforms::apply;

ir::Entry entry_of(const ir::Function& f) {
  ir::Entry e{f.name, f.name, {}, {}, {}, {}};
  for (size_t i = 0; i < f.params.size(); ++i) e.inputs.push_back("x" + std::to_string(i));
  for (size_t i = 0; i < f.results.size(); ++i) e.outputs.push_back("y" + std::to_string(i));
  return e;
}

ir::Module simplified(ir::Module m) {
  for (auto pass : {passes::eliminate_dead_code, passes::canonicalize, passes::fold_constants, passes::canonicalize,
                    passes::merge_common_subexpressions, passes::eliminate_dead_code})
    m = apply(pass, m);
  return m;
}

Result<ir::Module> planned(const ir::Module& m) {
  ir::Target target = ir::find_target("cpu:x86-64-v3").value();
  target.library = false;
  ir::Module local = m;
  local.stage = ir::Stage::kLocal;
  return NABLA_TRY(passes::run_passes(local, passes::lowering_steps(), ops::all_ops(), target)).module;
}

TEST(PlannedGraphs, GradientsOfRandomFunctionsAreWhatTheReferenceSays) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    ir::Module m;
    transforms::add(m, transforms::random_function("f", seed, 4 + static_cast<int>(seed % 12)));
    transforms::add_wrapper(m, "g", "value_and_grad", "f", {{"wrt", ir::Ints{0, 1, 2, 3}}});
    m = transforms::flattened(m);
    if (seed % 2) m = simplified(m);  // fusion must not need the help of simplification
    m.entries = {entry_of(*m.find("f")), entry_of(*m.find("g"))};
    auto lowered = planned(m);
    ASSERT_TRUE(lowered.ok()) << "seed " << seed << to_string(lowered.errors());
    for (const ir::Entry& e : m.entries) {
      std::vector<Literal> args = transforms::random_args(*m.find(e.function), seed), state;
      auto got = conformance::interpret_planned(*lowered, e.name, args, state);
      ASSERT_TRUE(got.ok()) << to_string(got.errors());
      // f64 throughout; the order of sums differs.
      EXPECT_EQ(property::difference(transforms::run(m, e.function, args), *got, property::Tolerance{1e-10}),
                std::nullopt)
          << "seed " << seed << " @" << e.function;
    }
  }
}

constexpr const char* kTraining = R"(nabla 1 flat
state w: f32[5,3]
state m: f32[5,3]
state count: i32[]
entry step calls @step {
  reads w, m, count
  writes w, m, count
  inputs x, t
  outputs loss
}
func @step(%w: f32[5,3], %m: f32[5,3], %count: i32[], %x: f32[4,5], %t: f32[4,3]) {
  %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %e = sub(%y, %t)
  %s = mul(%e, %e)
  %loss = reduce_sum(%s) {axes=[0, 1]}
  %g = dot_general(%x, %e) {lhs_contract=[0], rhs_contract=[0]}
  %beta = constant() {value=f32[] {0.9}}
  %beta2 = broadcast_in_dim(%beta) {shape=[5,3], dims=[]}
  %old = mul(%m, %beta2)
  %m2 = add(%old, %g)
  %rate = constant() {value=f32[] {0.02}}
  %rate2 = broadcast_in_dim(%rate) {shape=[5,3], dims=[]}
  %d = mul(%m2, %rate2)
  %w2 = sub(%w, %d)
  %one = constant() {value=i32[] {1}}
  %n = add(%count, %one)
  return %w2, %m2, %n, %loss
}
)";

TEST(PlannedGraphs, StateIsUpdatedInPlaceOverSeveralSteps) {
  auto m = ir::parse_module(kTraining, "training.nbl", ops::all_ops());
  ASSERT_TRUE(m.ok()) << to_string(m.errors());
  auto lowered = planned(*m);
  ASSERT_TRUE(lowered.ok()) << to_string(lowered.errors());
  std::vector<Literal> args = transforms::random_args(*m->find("step"), 3);
  std::vector<Literal> want(args.begin(), args.begin() + 3), state = want, inputs(args.begin() + 3, args.end());
  for (int step = 0; step < 4; ++step) {
    std::vector<Literal> all = want;
    all.insert(all.end(), inputs.begin(), inputs.end());
    std::vector<Literal> results = transforms::run(*m, "step", all);
    want.assign(results.begin(), results.begin() + 3);
    auto got = conformance::interpret_planned(*lowered, "step", inputs, state);
    ASSERT_TRUE(got.ok()) << to_string(got.errors());
    EXPECT_EQ(property::difference(want, state), std::nullopt) << "step " << step;
    EXPECT_EQ(property::difference(results[3], (*got)[0]), std::nullopt) << "step " << step;
  }
}

TEST(PlannedGraphs, AnUnknownEntryIsNamedWithItsNeighbour) {
  auto m = ir::parse_module(kTraining, "training.nbl", ops::all_ops());
  ASSERT_TRUE(m.ok()) << to_string(m.errors());
  std::vector<Literal> state(3);
  auto got = conformance::interpret_planned(planned(*m).value(), "stop", {}, state);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.errors()[0].code, Code::kUnknownEntry);
  EXPECT_NE(got.errors()[0].message.find("step"), std::string::npos) << got.errors()[0].message;
}

}  // namespace
}  // namespace nabla
