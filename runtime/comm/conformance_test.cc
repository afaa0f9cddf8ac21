// The suite of engines on ranks that are threads: of `local`, and of messages (`Peers`) between them.
#include "runtime/comm/conformance.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <thread>

#include "runtime/comm/local.h"
#include "runtime/comm/peers.h"
#include "runtime/comm/test_transport.h"

namespace nabla::comm {
namespace {

/// An engine whose ranks are all here.
struct Team {
  std::vector<uint8_t> table;
  std::vector<std::unique_ptr<World>> worlds;  ///< one of all ranks, or one per rank
  World& of(uint32_t rank) { return *worlds[worlds.size() == 1 ? 0 : rank]; }
};

std::unique_ptr<World> peers_of(const format::Ranks& table, std::unique_ptr<Transport> end, const PeerOptions& options = {}) {
  auto made = make_peers(table, std::move(end), options);
  NABLA_CHECK(made.ok(), "{}", made.errors()[0].message);
  return std::move(*made);
}

Team team_of(const std::string& engine, const std::vector<uint32_t>& axes) {
  Team team{plain_table(axes), {}};
  const format::Ranks& table = *flatbuffers::GetRoot<format::Ranks>(team.table.data());
  if (engine == "local") {
    team.worlds.push_back(std::make_unique<LocalRanks>(table, LocalOptions{.deadline_s = 60, .spin = false, .in_flight = {4}}));
    return team;
  }
  PeerOptions options{.deadline_s = 60, .yield = true, .in_flight = 4};
  for (auto& end : test_transports(table.count()))
    team.worlds.push_back(peers_of(table, std::move(end), options));
  return team;
}

class Engines : public ::testing::TestWithParam<std::tuple<std::string, std::vector<uint32_t>>> {};

TEST_P(Engines, DoWhatCollectivesMean) {
  const auto& [engine, axes] = GetParam();
  Team team = team_of(engine, axes);
  uint32_t count = std::accumulate(axes.begin(), axes.end(), 1u, std::multiplies<>());
  std::vector<std::string> wrong(count);
  for (auto& w : team.worlds) w->begin();
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < count; ++r)
    threads.emplace_back([&, r, axes = axes] {
      wrong[r] = check_engine(r, axes, team.of(r).rank(r), axes.size() > 1);
      team.of(r).end(r, wrong[r].empty() ? Status(Ok{}) : error(Code::kRanksDiverge, "{}", wrong[r]));
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& w : wrong) EXPECT_EQ(w, "");
}

INSTANTIATE_TEST_SUITE_P(All, Engines,
                         ::testing::Combine(::testing::Values("local", "messages"),
                                            ::testing::Values(std::vector<uint32_t>{1}, std::vector<uint32_t>{2},
                                                              std::vector<uint32_t>{3}, std::vector<uint32_t>{4},
                                                              std::vector<uint32_t>{5}, std::vector<uint32_t>{8},
                                                              std::vector<uint32_t>{2, 3}, std::vector<uint32_t>{2, 2, 2})),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param);
                           for (uint32_t a : std::get<1>(info.param)) name += "_" + std::to_string(a);
                           return name;
                         });

TEST(Peers, WhoDoesNotComeIsNamed) {
  std::vector<uint8_t> bytes = plain_table({3});
  const format::Ranks& table = *flatbuffers::GetRoot<format::Ranks>(bytes.data());
  auto ends = test_transports(3);
  auto world = peers_of(table, std::move(ends[0]), {.deadline_s = 0.2});
  float x = 1, y = 0;
  CollectiveCall call{.reduction = format::Reduction::Sum, .from = &x, .to = &y, .bytes = 4};
  ASSERT_TRUE(world->rank(0).start(0, call).ok());
  Status late = world->rank(0).wait(0);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.errors()[0].code, Code::kTooLate);
  EXPECT_EQ(late.errors()[0].message,
            "rank 0 waits in all_reduce of 4 bytes of group all for ranks 1, 2, and nothing came in 0.2 s");
  // What failed stays so.
  EXPECT_FALSE(world->rank(0).start(1, call).ok());
}

TEST(Peers, AnotherRanksFailureEndsTheWaiting) {
  std::vector<uint8_t> bytes = plain_table({2});
  const format::Ranks& table = *flatbuffers::GetRoot<format::Ranks>(bytes.data());
  auto ends = test_transports(2);
  int asked = 0;
  PeerOptions options{.verdict = [&]() -> std::optional<Diagnostic> {
    if (++asked < 3) return std::nullopt;
    return error(Code::kPeerLost, "rank 1 is gone");
  }};
  auto world = peers_of(table, std::move(ends[0]), options);
  float x = 1, y = 0;
  ASSERT_TRUE(world->rank(0).start(0, {.reduction = format::Reduction::Sum, .from = &x, .to = &y, .bytes = 4}).ok());
  Status gone = world->rank(0).wait(0);
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.errors()[0].message, "rank 1 is gone");
}

TEST(Peers, RanksAreThoseOfTheTable) {
  std::vector<uint8_t> bytes = plain_table({4});
  const format::Ranks& table = *flatbuffers::GetRoot<format::Ranks>(bytes.data());
  auto ends = test_transports(3);
  auto world = make_peers(table, std::move(ends[0]), {});
  ASSERT_FALSE(world.ok());
  EXPECT_EQ(world.errors()[0].message, "the bundle is for 4 ranks, and test has started 3");
}

TEST(Peers, BytesArePassedBetweenRuns) {
  std::vector<uint8_t> bytes = plain_table({2});
  const format::Ranks& table = *flatbuffers::GetRoot<format::Ranks>(bytes.data());
  auto ends = test_transports(2);
  auto a = peers_of(table, std::move(ends[0])), b = peers_of(table, std::move(ends[1]));
  std::string from(10000, 'x'), to(10000, ' ');
  std::thread other([&] { EXPECT_TRUE(b->pass(1, 0, from.data(), from.size()).ok()); });
  EXPECT_TRUE(a->pass(1, 0, to.data(), to.size()).ok());
  other.join();
  EXPECT_EQ(from, to);
}

}  // namespace
}  // namespace nabla::comm
