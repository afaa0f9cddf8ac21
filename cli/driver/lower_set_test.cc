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
  std::vector<ir::Target> targets = NABLA_TRY(targets_of(options, {NABLA_TRY(ir::find_target(options.target))}));
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

// Every size of a range of 64 may have its launch: the largest one is no further combination.
TEST(LowerSet, BucketsAreCountedWithTheLargestSize) {
  auto bucketed = [](int64_t last, const std::string& list) {
    std::string text = fmt::format("nabla 1 flat\nsymbol n in [1, {}]\nfunc @f(%x: f32[n]) {{\n  %y = exp(%x)\n  return %y\n}}\n", last);
    auto set = made({.target = "sm_80", .buckets = {list}}, text);
    return set.ok() ? "ok" : set.errors()[0].str();
  };
  std::string all = "n=1";
  for (int i = 2; i <= 64; ++i) all += fmt::format(",{}", i);
  EXPECT_EQ(bucketed(64, all), "ok");
  EXPECT_EQ(bucketed(65, all),
            "error[E0901]: --buckets: 65 of n sizes, each with its largest, make 65 combinations; a program has at most 64\n"
            "   = help: name fewer sizes, such as powers of two: a launch is made for every combination, at most 64\n");
  for (const char* size : {"65", "0", "-1"})
    EXPECT_EQ(bucketed(64, fmt::format("n={}", size)),
              fmt::format("error[E0901]: --buckets: n = {} is not in [1, 64]\n"
                          "   = help: name sizes that `n` may have, or declare it with another range\n",
                          size));
  EXPECT_TRUE(bucketed(64, "n=x").starts_with("error[E0901]: --buckets: `n=x` is no list of sizes such as batch=1,8,32\n"));
}

// A library's working memory is part of the arena, and a program that generates its products has none.
TEST(LowerSet, MemoryThatOnlyALibraryNeedsIsSaidToBeAChoice) {
  const std::string text = R"(nabla 1 flat
entry main calls @main {
  inputs x
  outputs y
}
func @main(%x: bf16[512,512]) {
  %p = dot_general(%x, %x) {lhs_contract=[1], rhs_contract=[0]}
  %y = dot_general(%p, %x) {lhs_contract=[1], rhs_contract=[0]}
  return %y
}
)";
  const std::string rest = "give up speed for memory with --remat-bytes, or shrink the program";
  auto help = [&](bool library, int64_t most) {
    auto set = made({.target = "sm_90a", .library = library, .max_bytes = passes::Bytes{most}}, text);
    return set.ok() ? "ok" : set.errors()[0].help;
  };
  EXPECT_EQ(help(true, 4 << 20), "raise --max-bytes, do without the library's working memory (--no-library), " + rest);
  EXPECT_EQ(help(false, 4 << 20), "ok");
  EXPECT_EQ(help(false, 4 << 10), "raise --max-bytes, " + rest);
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
  EXPECT_EQ(refusal("batch=6").message, "--specialize: batch = 6 is not a multiple of 4 in [4, 64]");
  EXPECT_EQ(refusal("bath=16").code, Code::kBadOption);
  EXPECT_EQ(refusal("bath=16").help, "its sizes are batch; one that equals an expression of others is none");
}

}  // namespace
}  // namespace nabla::driver
