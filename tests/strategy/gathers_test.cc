// What ZeRO-3 gathers: how often, and how many bytes.
#include <gtest/gtest.h>

#include <map>

#include "cli/driver/compile.h"
#include "tests/shard/collectives_of.h"
#include "tests/strategy/chain.h"
#include "tests/strategy/trained.h"

namespace nabla::strategy_tests {
namespace {

using Options = std::map<std::string, std::map<std::string, std::string>>;

driver::CompileOptions zero3(Options options) {
  options["apply-strategy"] = {{"data-axes", "dp"}, {"zero", "3"}};
  return {.target = "cpu", .library = false, .pass_options = std::move(options), .jobs = 2};
}

struct Gathers {
  int64_t calls = 0, bytes = 0;
};

Gathers gathers(const ir::Module& m, const Options& options) {
  Gathers out;
  auto made = driver::lower_module(m, zero3(options));
  EXPECT_TRUE(made.ok()) << to_string(made.errors());
  if (!made.ok()) return out;
  shard_tests::for_each_collective(made->planned, "step", [&](const ir::Function& f, const ir::Node& n, int64_t times) {
    if (n.op->name == "all_gather") out.calls += times, out.bytes += times * f.type(n.results[0]).bytes().value();
  });
  return out;
}

constexpr int64_t kHalves = kWidth * kWidth * 2;
const Options kAgain, kKept = {{"regather", {{"reshard-after-forward", "false"}}}};
Options one_by_one(Options options) {
  options["bucket-collectives"]["bucket-bytes"] = "0";
  return options;
}

// Masters in f32 whose conversions are gathered: again for the way back but for the last layer, and the first, which needs no
// gradient of the batch; in one bucket where they fit.
TEST(Gathers, OfMastersInHalves) {
  const ir::Module m = chain("dp=4", Update::kPlain, true);
  auto expect = [&](const Options& options, int64_t calls, int64_t layers) {
    Gathers got = gathers(m, options);
    EXPECT_EQ(got.calls, calls);
    EXPECT_EQ(got.bytes, layers * kHalves);
  };
  expect(one_by_one(kAgain), 6, 6);
  expect(one_by_one(kKept), 4, 4);
  expect(kAgain, 2, 6);
  expect(kKept, 1, 4);
  const std::vector<Literal> expected = trained(m, zero3(kAgain));
  ASSERT_EQ(expected.size(), 3u);
  for (const Options& options : {one_by_one(kAgain), one_by_one(kKept), kKept}) EXPECT_EQ(trained(m, zero3(options)), expected);
}

// A conversion is made again too: between the passes no rank keeps its part in halves.
TEST(Gathers, ConversionsAreMadeAgain) {
  const ir::Module m = chain("dp=4", Update::kPlain, true);
  auto made = driver::lower_module(m, zero3(one_by_one(kAgain)));
  ASSERT_TRUE(made.ok()) << to_string(made.errors());
  std::map<ir::ValueId, int64_t> readers;
  for (const ir::Node& n : made->planned.find("step")->nodes) {
    if (n.op->name == "all_gather") EXPECT_EQ(++readers[n.operands[0]], 1);
  }
}

}  // namespace
}  // namespace nabla::strategy_tests
