// What ZeRO-3 gathers: how often, how many bytes, and what notes say of it.
#include <gtest/gtest.h>

#include <map>

#include "cli/driver/compile.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "tests/pass_options.h"
#include "tests/shard/collectives_of.h"
#include "tests/strategy/chain.h"
#include "tests/strategy/trained.h"

namespace nabla::strategy_tests {
namespace {

using Options = std::map<std::string, OptionTexts>;  // by pass

driver::CompileOptions zero3(const Options& given, bool microbatches = false) {
  passes::PassOptions options;
  options.apply_strategy = {.data_axes = {"dp"}, .zero = 3};
  if (microbatches) options.apply_strategy.data_axes.push_back("mb");
  for (const auto& [pass, texts] : given) set_options(options, pass, texts);
  return {.target = "cpu", .library = false, .pass_options = std::move(options), .jobs = 2};
}

struct Gathers {
  int64_t calls = 0, bytes = 0;
  std::vector<std::string> notes;  ///< of the pass that is asked for
};

Gathers gathers(const ir::Module& m, const Options& options, const std::string& pass = "regather") {
  Gathers out;
  auto made = driver::lower_module(m, zero3(options, m.meshes[0].axes.size() > 1));
  EXPECT_TRUE(made.ok()) << to_string(made.errors());
  if (!made.ok()) return out;
  for (const passes::PassReport& report : made->passes)
    if (report.pass == pass) out.notes = ir::texts_of(report.remarks);
  shard_tests::for_each_collective(made->planned, "step", [&](const ir::Function& f, const ir::Node& n, int64_t times) {
    if (n.op->name == "all_gather") out.calls += times, out.bytes += times * f.type(n.results[0]).bytes().value();
  });
  return out;
}

constexpr int64_t kHalves = kWidth * kWidth * 2, kWhole = kWidth * kWidth * kF32;
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
    EXPECT_EQ(got.notes, std::vector<std::string>());
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
    if (n.op->name != "all_gather") continue;
    EXPECT_EQ(++readers[n.operands[0]], 1);
  }
}

// What a loop gathers of its slices is stacked for the loop of the way back, if it is to be kept.
TEST(Gathers, KeptByALoop) {
  for (Layers layers : {Layers::kPlain, Layers::kHalves, Layers::kRemat}) {
    const ir::Module m = stacked("dp=4", layers);
    const std::string name = layers == Layers::kRemat ? "outer" : "layer";
    const int64_t bytes = kLayers * (layers == Layers::kHalves ? kHalves : kWhole);
    Gathers again = gathers(m, kAgain), kept = gathers(m, kKept);
    EXPECT_EQ(again.calls, 2 * kLayers);
    EXPECT_EQ(again.bytes, 2 * bytes);
    EXPECT_EQ(again.notes, std::vector<std::string>());
    EXPECT_EQ(kept.calls, kLayers);
    EXPECT_EQ(kept.bytes, bytes);
    EXPECT_EQ(kept.notes, std::vector<std::string>{fmt::format("reshard-after-forward=false: what @{0}.vjp_fwd.step gathers of %w is kept "
                                                               "for @{0}.vjp_bwd.step, {1} bytes of all 4 trips", name, bytes)});
    const std::vector<Literal> expected = trained(m, zero3(kAgain));
    ASSERT_EQ(expected.size(), 3u);
    EXPECT_EQ(trained(m, zero3(kKept)), expected);
  }
}

// Loops within a loop keep nothing for those of another loop, and the note says so.
TEST(Gathers, OfLoopsWithinLoopsAreNotKept) {
  Gathers kept = gathers(stacked("dp=4", Layers::kGroups), kKept);
  EXPECT_EQ(kept.calls, 2 * kLayers);
  EXPECT_EQ(kept.notes, std::vector<std::string>{"reshard-after-forward=false: %w is gathered in @layer.vjp_fwd.step and in "
                                                 "@layer.vjp_bwd.step all the same: what loops within a loop, or branches, gather "
                                                 "is kept for nothing outside of them"});
}

// In a microbatch, too, and no longer than it takes.
TEST(Gathers, KeptByALoopOfAMicrobatch) {
  const ir::Module m = stacked("dp=2, mb=4 temporal");
  EXPECT_EQ(gathers(m, kAgain).calls, 4 * 2 * kLayers);
  Gathers kept = gathers(m, kKept);
  EXPECT_EQ(kept.calls, 4 * kLayers);
  EXPECT_EQ(kept.notes.size(), 1u);
}

// What a function computes again reads what it has gathered before.
TEST(Gathers, KeptForWhatIsComputedAgain) {
  std::string text = ir::print(chain("dp=4")), args, params;
  const std::string called = "callee=@loss";
  text.replace(text.find(called), called.size(), "callee=@again");
  for (int i = 0; i < kLayers; ++i) args += fmt::format("%w{}, ", i), params += fmt::format("%w{0}: f32[{1},{1}], ", i, kWidth);
  text += fmt::format("func @again({}%x: f32[{},{}]) {{\n", params, kBatch, kWidth);
  text += fmt::format("  %l = remat({}%x) {{callee=@loss}}\n  return %l\n}}\n", args);
  auto m = ir::parse_module(text, "again.nbl", ops::all_ops());
  ASSERT_TRUE(m.ok()) << to_string(m.errors());
  Gathers again = gathers(*m, one_by_one(kAgain)), kept = gathers(*m, one_by_one(kKept));
  EXPECT_EQ(again.calls, 2 * kLayers);
  EXPECT_EQ(kept.calls, kLayers);
  ASSERT_EQ(kept.notes.size(), static_cast<size_t>(kLayers));
  EXPECT_EQ(kept.notes[0], "reshard-after-forward=false: @step keeps what it gathers of %w0 for what it computes again");
}

TEST(Gathers, NothingToKeep) {
  Options options = kKept;
  options["apply-strategy"]["zero"] = "1";
  EXPECT_EQ(gathers(stacked("dp=4"), options).notes,
            std::vector<std::string>{"reshard-after-forward=false: no parameter would be gathered again for the way back in any case"});
}

// No trip of a loop begins a gather for the next one, which the note says; nor are more ahead than there are.
TEST(Gathers, PrefetchedInTheirOwnTrip) {
  auto prefetched = [](const ir::Module& m, const char* ahead) {
    Options options = one_by_one({{"schedule-collectives", {{"prefetch", ahead}}}});
    std::vector<std::string> notes = gathers(m, options, "schedule-collectives").notes;
    for (std::string& note : notes) note = note.substr(0, note.find(", temporaries"));
    return notes;
  };
  for (const auto& [ahead, says] : {std::pair("0", "0"), std::pair("1", "1"), std::pair("4", "1")}) {
    std::vector<std::string> notes = prefetched(stacked("dp=4"), ahead);
    ASSERT_GE(notes.size(), 2u);
    for (size_t k = 0; k < 2; ++k)
      EXPECT_EQ(notes[k], fmt::format("@layer.vjp_{}.step: 1 gather of parameters, {} ahead of its use, none before the trip of the loop "
                                      "that uses it", k == 0 ? "bwd" : "fwd", says));
  }
  ASSERT_FALSE(prefetched(chain("dp=4"), "2").empty());
  EXPECT_EQ(prefetched(chain("dp=4"), "2")[0], "@step: 6 gathers of parameters, 2 ahead of their use");
  for (bool halves : {false, true})
    EXPECT_EQ(prefetched(chain("dp=4", Update::kPlain, halves), "8")[0], "@step: 6 gathers of parameters, 6 ahead of their use");
}

}  // namespace
}  // namespace nabla::strategy_tests
