// The suite of engines on ranks that are threads: of `local`, and of messages (`Peers`) between them.
#include "runtime/comm/conformance.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
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
  // Rounds above 2 members, so that the small groups of the suite have them too.
  PeerOptions options{.deadline_s = 60, .yield = true, .in_flight = 4, .few = engine == "rounds" ? 2u : 8u};
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

std::string name_of(const ::testing::TestParamInfo<Engines::ParamType>& info) {
  std::string name = std::get<0>(info.param);
  for (uint32_t a : std::get<1>(info.param)) name += "_" + std::to_string(a);
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Engines,
                         ::testing::Combine(::testing::Values("local", "messages"),
                                            ::testing::Values(std::vector<uint32_t>{1}, std::vector<uint32_t>{2},
                                                              std::vector<uint32_t>{3}, std::vector<uint32_t>{4},
                                                              std::vector<uint32_t>{5}, std::vector<uint32_t>{8},
                                                              std::vector<uint32_t>{2, 3}, std::vector<uint32_t>{2, 2, 2})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Rounds, Engines,
                         ::testing::Combine(::testing::Values("rounds"),
                                            ::testing::Values(std::vector<uint32_t>{3}, std::vector<uint32_t>{5},
                                                              std::vector<uint32_t>{2, 4})),
                         name_of);

/// Counts the messages and bytes that a rank sends, and how often it tests for the arrival of a message.
class Counting final : public Transport {
 public:
  Counting(std::unique_ptr<Transport> end, std::atomic<int64_t>& sends, std::atomic<int64_t>& tests)
      : end_(std::move(end)), sends_(sends), tests_(tests) {}
  std::string name() const override { return end_->name(); }
  uint32_t rank() const override { return end_->rank(); }
  uint32_t ranks() const override { return end_->ranks(); }
  Result<Request> send(uint32_t to, uint32_t tag, const void* from, uint64_t bytes) override {
    ++sends_;
    return end_->send(to, tag, from, bytes);
  }
  Result<Request> recv(uint32_t from, uint32_t tag, void* to, uint64_t bytes) override { return end_->recv(from, tag, to, bytes); }
  Result<bool> test(Request request) override { return ++tests_, end_->test(request); }
  Status close() override { return end_->close(); }

 private:
  std::unique_ptr<Transport> end_;
  std::atomic<int64_t>&sends_, &tests_;
};

// 64 ranks: a small sum or gather is 6 messages of each, a broadcast one message to each rank, and the bits are those of the order of
// the members.
TEST(Peers, LargeGroupsSendFewMessages) {
  constexpr uint32_t kRanks = 64;
  std::vector<uint8_t> bytes = plain_table({kRanks});
  const format::Ranks& table = *flatbuffers::GetRoot<format::Ranks>(bytes.data());
  std::atomic<int64_t> sends{0}, tests{0};
  std::vector<std::unique_ptr<World>> worlds;
  for (auto& end : test_transports(kRanks)) worlds.push_back(peers_of(table, std::make_unique<Counting>(std::move(end), sends, tests)));
  auto value_of = [](uint32_t r) { return 1.0f / static_cast<float>(r + 3); };
  float in_order = value_of(0);
  for (uint32_t r = 1; r < kRanks; ++r) in_order += value_of(r);
  std::atomic<int> wrong{0};
  auto all = [&](CollectiveCall call, const std::function<bool(uint32_t, const std::vector<float>&)>& right) {
    sends = 0;
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < kRanks; ++r)
      threads.emplace_back([&, r, own = call]() mutable {
        float from = value_of(r);
        std::vector<float> to(kRanks, -1);
        own.from = &from, own.to = to.data(), own.bytes = sizeof from;
        Communicator& peers = worlds[r]->rank(r);
        bool done = peers.start(0, own).ok() && peers.wait(0).ok();
        wrong += !done || !right(r, to);
      });
    for (std::thread& t : threads) t.join();
    return sends.load();
  };
  EXPECT_EQ(all({.kind = format::CollectiveKind::AllReduce, .reduction = format::Reduction::Sum, .dtype = format::DType::F32},
                [&](uint32_t, const auto& to) { return to[0] == in_order; }), kRanks * 6);
  EXPECT_EQ(all({.kind = format::CollectiveKind::AllGather, .dtype = format::DType::F32},
                [&](uint32_t, const auto& to) {
                  for (uint32_t m = 0; m < kRanks; ++m)
                    if (to[m] != value_of(m)) return false;
                  return true;
                }), kRanks * 6);
  EXPECT_EQ(all({.kind = format::CollectiveKind::Broadcast, .dtype = format::DType::F32, .root = 5},
                [&](uint32_t, const auto& to) { return to[0] == value_of(5); }), kRanks - 1);
  EXPECT_EQ(wrong, 0);
}

// Each of 256 ranks sends 16 messages for a sum of 32 KiB instead of 510. The sums are bitwise those of the order of the members.
TEST(Peers, LargeGroupsSendFewMessagesOfMiddleSizes) {
  constexpr uint32_t kRanks = 256, kElements = 8192, kBlock = kElements / kRanks;
  std::vector<uint8_t> bytes = plain_table({kRanks});
  const format::Ranks& table = *flatbuffers::GetRoot<format::Ranks>(bytes.data());
  std::atomic<int64_t> sends{0}, tests{0};
  std::vector<std::unique_ptr<World>> worlds;
  for (auto& end : test_transports(kRanks)) worlds.push_back(peers_of(table, std::make_unique<Counting>(std::move(end), sends, tests)));
  auto value_of = [](uint32_t r, uint32_t i) { return 1.0f / static_cast<float>(r + i % 97 + 3); };
  std::vector<float> in_order(kElements);
  for (uint32_t i = 0; i < kElements; ++i)
    for (uint32_t r = 0; r < kRanks; ++r) in_order[i] = r == 0 ? value_of(0, i) : in_order[i] + value_of(r, i);
  // Returns the value that element i of a rank's result has if it is right.
  using Right = std::function<float(uint32_t rank, uint32_t i)>;
  auto all = [&](format::CollectiveKind kind, uint32_t elements, uint32_t results, bool in_place, const Right& right) {
    sends = 0;
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < kRanks; ++r)
      threads.emplace_back([&, r] {
        std::vector<float> from(elements), to(elements, -1);
        for (uint32_t i = 0; i < elements; ++i) from[i] = value_of(r, i);
        if (in_place) to = from;
        CollectiveCall call{.kind = kind, .reduction = format::Reduction::Sum, .dtype = format::DType::F32};
        call.from = in_place ? to.data() : from.data(), call.to = to.data(), call.bytes = elements * sizeof(float);
        Communicator& peers = worlds[r]->rank(r);
        bool same = peers.start(0, call).ok() && peers.wait(0).ok();
        for (uint32_t i = 0; i < results; ++i) same = same && to[i] == right(r, i);
        wrong += !same;
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
    return sends.load();
  };
  auto sum = [&](uint32_t, uint32_t i) { return in_order[i]; };
  EXPECT_EQ(all(format::CollectiveKind::AllReduce, kElements, kElements, false, sum), kRanks * 16);
  EXPECT_EQ(all(format::CollectiveKind::AllReduce, kElements, kElements, true, sum), kRanks * 16);
  EXPECT_EQ(all(format::CollectiveKind::AllReduce, kElements - 1, kElements - 1, false, sum), kRanks * 16);  // shares differ
  EXPECT_EQ(all(format::CollectiveKind::AllReduce, kRanks - 8, kRanks - 8, false, sum), kRanks * 16);  // some members have no share
  EXPECT_EQ(all(format::CollectiveKind::ReduceScatter, kElements, kBlock, false,
                [&](uint32_t r, uint32_t i) { return in_order[r * kBlock + i]; }), kRanks * 8);
  EXPECT_EQ(all(format::CollectiveKind::AllToAll, kElements, kElements, false,
                [&](uint32_t r, uint32_t i) { return value_of(i / kBlock, r * kBlock + i % kBlock); }), kRanks * 8);
}

/// Rank 0 of many. Every message has come when it is asked for.
class Immediate final : public Transport {
 public:
  Immediate(uint32_t ranks, int64_t& begun, int64_t& tests) : ranks_(ranks), begun_(begun), tests_(tests) {}
  std::string name() const override { return "immediate"; }
  uint32_t rank() const override { return 0; }
  uint32_t ranks() const override { return ranks_; }
  Result<Request> send(uint32_t, uint32_t, const void*, uint64_t) override { return static_cast<Request>(++begun_); }
  Result<Request> recv(uint32_t, uint32_t, void* to, uint64_t bytes) override {
    std::memset(to, 0, bytes);
    return static_cast<Request>(++begun_);
  }
  Result<bool> test(Request) override { return ++tests_ > 0; }
  Status close() override { return Ok{}; }

 private:
  uint32_t ranks_;
  int64_t &begun_, &tests_;
};

// The work of a rank for a collective grows with the number of its messages, not with its square.
TEST(Peers, EveryMessageIsTestedOnceWhenAllHaveCome) {
  constexpr uint32_t kRanks = 1024;
  std::vector<uint8_t> bytes = plain_table({kRanks});
  const format::Ranks& table = *flatbuffers::GetRoot<format::Ranks>(bytes.data());
  int64_t begun = 0, tests = 0;
  auto world = peers_of(table, std::make_unique<Immediate>(kRanks, begun, tests));
  for (auto [elements, messages] : {std::pair{int64_t{1}, 2 * 10}, {int64_t{1} << 16, 2 * 20}, {int64_t{1} << 20, 4 * 1023}}) {
    std::vector<float> values(static_cast<size_t>(elements), 1);
    begun = tests = 0;
    CollectiveCall call{.reduction = format::Reduction::Sum, .dtype = format::DType::F32, .from = values.data(), .to = values.data()};
    call.bytes = static_cast<uint64_t>(elements) * sizeof(float);
    ASSERT_TRUE(world->rank(0).start(0, call).ok());
    ASSERT_TRUE(world->rank(0).wait(0).ok());
    EXPECT_EQ(begun, messages) << elements;
    EXPECT_EQ(tests, messages) << elements;
    EXPECT_EQ(values[0], 1) << elements;
  }
}

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
