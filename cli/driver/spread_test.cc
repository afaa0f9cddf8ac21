// Which options need a mesh, and what their refusals say to do.
#include "cli/driver/spread.h"

#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::driver {
namespace {

ir::Module module_with(const std::string& lines) {
  auto m = ir::parse_module("nabla 1 traced\n" + lines + "func @f(%x: f32[8]) {\n  return %x\n}\n", "m.nbl", ops::all_ops());
  EXPECT_TRUE(m.ok()) << to_string(m.errors());
  return std::move(*m);
}

struct Refusal {
  std::string message, help;
  bool operator==(const Refusal&) const = default;
};
// Empty where nothing is refused.
Refusal refusal(const ir::Module& module, const CompileOptions& options, const std::vector<std::string>& given) {
  Status status = check_spread(module, options, given);
  if (status.ok()) return {};
  EXPECT_EQ(status.errors()[0].code, Code::kBadOption);
  return {status.errors()[0].message, status.errors()[0].help};
}

TEST(CheckSpread, OptionsOfRanksNeedAMesh) {
  const ir::Module one = module_with(""), many = module_with("mesh pod = {dp=2}\n");
  const CompileOptions two{.mesh = {"dp=2"}};
  const Refusal alone = refusal(one, {}, {"zero"});
  EXPECT_EQ(alone.message, "--zero: the module has no mesh, so that one rank runs it, which exchanges nothing");
  EXPECT_EQ(alone.help, "say how many ranks there are, and along which axes the batch lies: --mesh dp=4 --data-axes dp");
  EXPECT_EQ(refusal(one, {}, {}), Refusal{});
  EXPECT_EQ(refusal(one, two, {"zero"}), Refusal{});
  EXPECT_EQ(refusal(many, {}, {"zero"}), Refusal{});
  CompileOptions search;
  search.pass_options.auto_shard.search = true;
  const Refusal nowhere = refusal(one, search, {});
  EXPECT_EQ(nowhere.message, "--auto-shard: the module has no mesh over which it could be laid out");
  EXPECT_EQ(nowhere.help, "give one: --mesh dp=2,tp=4");
  EXPECT_EQ(refusal(many, search, {"auto-shard"}), Refusal{});
}

TEST(CheckSpread, CopiesOfStateOverlapWithoutRanks) {
  const ir::Module one = module_with("");
  CompileOptions offload;
  offload.pass_options.apply_strategy.offload = passes::Offload::kAll;
  for (const ir::Module& module : {module_with("state w: f32[8] @host\n"), one})
    for (const char* option : {"no-overlap", "overlap-bytes"})
      EXPECT_EQ(refusal(module, offload, {option}), Refusal{});
  EXPECT_EQ(refusal(module_with("state w: f32[8] @host\n"), {}, {"no-overlap"}), Refusal{});
  EXPECT_NE(refusal(one, {}, {"no-overlap"}), Refusal{});
  EXPECT_NE(refusal(one, offload, {"prefetch"}), Refusal{});
}

TEST(CheckSpread, WhatIsCutIntoNothingIsRefused) {
  const ir::Module many = module_with("mesh pod = {dp=2}\n"), cut = module_with("mesh pod = {dp=2, mb=2 temporal}\n");
  CompileOptions each;
  each.pass_options.partition.grad_sync = passes::GradSync::kEach;
  const Refusal whole = refusal(many, each, {"grad-sync"});
  EXPECT_EQ(whole.message, "--grad-sync: the batch is not cut into microbatches");
  EXPECT_EQ(whole.help, "say into how many: --microbatches 4");
  EXPECT_EQ(refusal(cut, each, {"grad-sync"}), Refusal{});
  each.microbatches = 2;
  EXPECT_EQ(refusal(many, each, {"grad-sync"}), Refusal{});
  CompileOptions first;
  first.pass_options.bucket_collectives = {{0}, {64 << 10}};
  const Refusal bucket = refusal(many, first, {"bucket-bytes", "first-bucket-bytes"});
  EXPECT_EQ(bucket.message, "--first-bucket-bytes: with --bucket-bytes 0 there are no buckets, nor a first one");
  EXPECT_EQ(bucket.help, "give --bucket-bytes more than 0, or leave --first-bucket-bytes out");
  EXPECT_EQ(refusal(many, first, {"bucket-bytes"}), Refusal{});
  first.pass_options.bucket_collectives.bucket_bytes = {1 << 20};
  EXPECT_EQ(refusal(many, first, {"first-bucket-bytes"}), Refusal{});
}

}  // namespace
}  // namespace nabla::driver
