// What a report says that ranks exchange is what they exchange, in every strategy: calls and bytes, as integers; and
// memory is what was planned.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/driver/compile.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/pass_options.h"
#include "tests/strategy/chain.h"

namespace nabla::strategy_tests {
namespace {

struct Strategy {
  const char* name;
  const char* mesh;
  std::map<std::string, std::string> options;  ///< of apply-strategy
  int64_t microbatches = 0;
  bool scan = false;
  Update update = Update::kPlain;
};

// By op and size of the group: calls and bytes.
using Counts = std::map<std::pair<std::string, int64_t>, std::pair<uint64_t, uint64_t>>;

class Counted : public testing::TestWithParam<Strategy> {};

TEST_P(Counted, TheReportIsWhatRuns) {
  const Strategy& s = GetParam();
  driver::CompileOptions options;
  options.microbatches = s.microbatches;
  set_options(options.pass_options, "apply-strategy", s.options);
  driver::CompiledBundle made = driver::compile(s.scan ? stacked(s.mesh) : chain(s.mesh, s.update), options).value();
  auto report = nlohmann::json::parse(made.report);
  Counts stated;
  for (const auto& entry : report["entries"])
    for (const auto& row : entry["collectives"]) {
      auto& [calls, bytes] = stated[{row["op"], row["ranks"]}];
      calls += row["times"].get<uint64_t>();
      bytes += row["times"].get<uint64_t>() * row["payload_bytes"].get<uint64_t>();
    }
  auto bundle = format::Bundle::from_bytes(
      format::FileBytes::copy_of({reinterpret_cast<const uint8_t*>(made.bytes.data()), made.bytes.size()}), "test");
  auto session = exec::Session::create(std::move(bundle).value(), {.threads = 1}).value();
  EXPECT_EQ(session->arena_bytes(), report["arena_bytes"].get<uint64_t>());
  EXPECT_TRUE(session->exchanges().empty());
  for (size_t leaf = 0; leaf < session->state_leaves().size(); ++leaf) {
    const exec::TensorInfo& info = session->state_leaves()[leaf];
    Literal zeros(info.dtype, info.shape);
    ASSERT_TRUE(session->set_state(static_cast<int>(leaf), zeros.data()).ok());
  }
  std::vector<Literal> inputs;
  for (const exec::TensorInfo& info : session->entries()[0].inputs) inputs.emplace_back(info.dtype, info.shape);
  constexpr uint64_t kRuns = 3;
  for (uint64_t run = 0; run < kRuns; ++run) ASSERT_TRUE(session->call(0, inputs).ok());
  Counts counted;
  for (const exec::ExchangeCount& e : session->exchanges()) {
    auto& [calls, bytes] = counted[{e.op, e.ranks}];
    calls += e.calls, bytes += e.payload_bytes;
  }
  for (auto& [key, count] : stated) count = {count.first * kRuns, count.second * kRuns};
  EXPECT_EQ(counted, stated);
  EXPECT_FALSE(counted.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, Counted,
    testing::Values(Strategy{"Dp", "dp=4", {{"data-axes", "dp"}}},
                    Strategy{"Zero1", "dp=4", {{"data-axes", "dp"}, {"zero", "1"}}},
                    Strategy{"Zero3", "dp=4", {{"data-axes", "dp"}, {"zero", "3"}}},
                    Strategy{"Zero3Clipped", "dp=2", {{"data-axes", "dp"}, {"zero", "3"}}, 0, false, Update::kClipped},
                    Strategy{"Squares", "dp=4", {{"data-axes", "dp"}}, 0, false, Update::kSquares},
                    Strategy{"Zero2Micro", "dp=2", {{"data-axes", "dp"}, {"zero", "2"}}, 4},
                    Strategy{"Hybrid", "rep=2, dp=2", {{"data-axes", "rep,dp"}, {"zero", "3"}, {"zero-axes", "dp"}}},
                    Strategy{"DpTp", "dp=2, tp=2", {{"data-axes", "dp"}, {"layouts", "w[02]=,tp;w[13]=tp,"}}},
                    Strategy{"Scan", "dp=4", {{"data-axes", "dp"}}, 0, true},
                    Strategy{"ScanMicro", "dp=2", {{"data-axes", "dp"}}, 2, true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace nabla::strategy_tests
