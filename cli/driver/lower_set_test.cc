// Sizes that users name, in programs that several ranks share.
#include "cli/driver/lower_set.h"

#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::driver {
namespace {

constexpr const char* kOfBatch = R"(nabla 1 flat
mesh pod = {dp=2}
symbol batch in [4, 64] multiple 4
state w: f32[8,8]
entry step calls @step {
  reads w
  inputs x
  outputs y
}

func @step(%w: f32[8,8], %x: f32[batch@dp,8@{}]) {
  %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  return %y
}
)";

Result<LoweredSet> made(CompileOptions options, const std::string& text = kOfBatch) {
  ir::Module m = NABLA_TRY(ir::parse_module(text, "m.nbl", ops::all_ops()));
  std::vector<ir::Target> targets = NABLA_TRY(targets_of(options, {options.target}));
  return lower_set(targets[0], m, options);
}
std::vector<std::string> entries_of(const LoweredSet& set) {
  std::vector<std::string> out;
  for (const ir::Entry& e : set.planned.classes[0].module.entries) out.push_back(e.name);
  return out;
}

// Sizes are those of the whole program, or those of a rank by their own name.
TEST(LowerSet, SpecialisesForSizesOfTheWhole) {
  using Names = std::vector<std::string>;
  for (const char* sizes : {"batch=16", "batch.local=8"}) {
    auto set = made({.specialise = {sizes}});
    ASSERT_TRUE(set.ok()) << to_string(set.errors());
    EXPECT_EQ(entries_of(*set), (Names{"step", "step[batch.local=8]"}));
  }
  EXPECT_EQ(entries_of(made({.specialise = {"batch=16,32", "batch.local=8"}}).value()),
            (Names{"step", "step[batch.local=8]", "step[batch.local=16]"}));
  std::string alone = kOfBatch;
  alone.replace(alone.find("dp=2"), 4, "dp=1");
  EXPECT_EQ(entries_of(made({.specialise = {"batch=16"}}, alone).value()), (Names{"step", "step[batch=16]"}));
}

TEST(LowerSet, LaunchesForSizesOfTheWhole) {
  auto set = made({.target = "sm_80", .buckets = {"batch=8,64"}});
  ASSERT_TRUE(set.ok()) << to_string(set.errors());
  EXPECT_EQ(set->buckets[0], (Buckets{{"batch.local", {4, 32}}}));
}

TEST(LowerSet, RefusesSizesThatRanksCannotShare) {
  auto refusal = [](const std::string& sizes) {
    auto set = made({.specialise = {sizes}});
    return set.ok() ? Diagnostic{} : set.errors()[0];
  };
  EXPECT_EQ(refusal("batch=15").message,
            "--specialize: batch=15 is asked for, and batch lies in 2 parts over mesh pod, which do not divide 15");
  EXPECT_EQ(refusal("batch=15").help, "take multiples of 4");
  EXPECT_EQ(refusal("batch=15").code, Code::kBadOption);
  EXPECT_EQ(refusal("batch=6").message, "batch = 6 is not a multiple of 4 in [4, 64]");
  EXPECT_EQ(refusal("bath=16").code, Code::kBadOption);
  EXPECT_EQ(refusal("bath=16").help, "its sizes are batch; one that equals an expression of others is none");
}

}  // namespace
}  // namespace nabla::driver
