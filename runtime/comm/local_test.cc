// Ranks that are threads: what the suite of all engines (conformance.h) does not ask.
#include "runtime/comm/local.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "runtime/base/spin.h"
#include "runtime/comm/combine.h"
#include "runtime/comm/conformance.h"

namespace nabla::comm {
namespace {

using format::CollectiveKind;
using format::Reduction;

// The ranks of plain_table.
class Ranks {
 public:
  explicit Ranks(std::vector<uint32_t> axes, LocalOptions options = {}) {
    bytes_ = plain_table(axes);
    const format::Ranks& table = *flatbuffers::GetRoot<format::Ranks>(bytes_.data());
    if (options.in_flight.empty()) options.in_flight = {4};
    ranks = std::make_unique<LocalRanks>(table, options);
    count = table.count();
  }

  // Runs `f` on every rank; the first error.
  std::optional<Diagnostic> run(const std::function<Status(uint32_t, Communicator&)>& f) {
    ranks->begin();
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < count; ++r) threads.emplace_back([&, r] { ranks->end(r, f(r, ranks->rank(r))); });
    for (std::thread& t : threads) t.join();
    return ranks->failure();
  }

  std::unique_ptr<LocalRanks> ranks;
  uint32_t count = 0;

 private:
  std::vector<uint8_t> bytes_;
};

Status exchange(Communicator& peers, const CollectiveCall& call) {
  (void)NABLA_TRY(peers.start(7, call));
  return peers.wait(7);
}

TEST(LocalRanks, NanOfOneRankIsThatOfAll) {
  Ranks team({2});
  float values[2] = {NAN, 1}, out[2] = {};
  auto failed = team.run([&](uint32_t me, Communicator& peers) {
    return exchange(peers, {.reduction = Reduction::Max, .from = &values[me], .to = &out[me], .bytes = 4});
  });
  ASSERT_FALSE(failed);
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
}

TEST(LocalRanks, ManyInTurnOnSeveralGroups) {
  Ranks team({2, 2});
  std::vector<int64_t> last(4);
  auto failed = team.run([&](uint32_t me, Communicator& peers) -> Status {
    int64_t value = me + 1;
    for (int step = 0; step < 3000; ++step) {
      int64_t sum = 0;
      CollectiveCall call{.reduction = Reduction::Max,
                          .dtype = format::DType::I64,
                          .group = static_cast<uint32_t>(step % 3),
                          .from = &value,
                          .to = &sum,
                          .bytes = 8};
      (void)NABLA_TRY(exchange(peers, call));
      value = sum + (step % 2);
    }
    last[me] = value;
    return Ok{};
  });
  ASSERT_FALSE(failed) << failed->message;
  EXPECT_EQ(last, std::vector<int64_t>(4, 4 + 1500));
}

// Rank 0 waits along one axis while it has started along the other: nobody depends on where it waits.
TEST(LocalRanks, WhatHasStartedEndsInAnyOrderOfWaiting) {
  Ranks team({2, 2});
  std::vector<int32_t> rows(4), columns(4);
  auto failed = team.run([&](uint32_t me, Communicator& peers) -> Status {
    auto one = static_cast<int32_t>(1 << (8 * me));
    CollectiveCall row{.reduction = Reduction::Sum,
                       .dtype = format::DType::I32,
                       .group = 2,
                       .from = &one,
                       .to = &rows[me],
                       .bytes = 4};
    CollectiveCall column = row;
    column.group = 1, column.to = &columns[me];
    (void)NABLA_TRY(peers.start(0, row));
    (void)NABLA_TRY(peers.start(1, column));
    bool first = me == 0 || me == 3;
    (void)NABLA_TRY(peers.wait(first ? 0 : 1));
    return peers.wait(first ? 1 : 0);
  });
  ASSERT_FALSE(failed) << failed->message;
  EXPECT_EQ(rows, (std::vector<int32_t>{0x101, 0x101, 0x1010000, 0x1010000}));
  EXPECT_EQ(columns, (std::vector<int32_t>{0x10001, 0x1000100, 0x10001, 0x1000100}));
}

// As when other programs have the CPU of the partner: who waits for it leaves its own CPU to others.
TEST(LocalRanks, WaitingForAStoppedRankTakesNoTimeOfACpu) {
  constexpr int kSteps = 60;
  Ranks team({2}, {.deadline_s = 60, .spin = true, .in_flight = {1}});
  int64_t cpu_ns = 0;
  auto failed = team.run([&](uint32_t me, Communicator& peers) -> Status {
    int64_t begin = read_clock(CLOCK_THREAD_CPUTIME_ID);
    for (int step = 0; step < kSteps; ++step) {
      if (me == 1) std::this_thread::sleep_for(std::chrono::milliseconds(4));
      float x = 1, y = 0;
      (void)NABLA_TRY(exchange(peers, {.reduction = Reduction::Sum, .from = &x, .to = &y, .bytes = 4}));
    }
    if (me == 0) cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID) - begin;
    return Ok{};
  });
  ASSERT_FALSE(failed) << failed->message;
  EXPECT_LT(cpu_ns / kSteps, 200'000) << "a rank that waits 4 ms for another spins for most of a millisecond";
}

TEST(LocalRanks, WhoDoesNotComeIsAnError) {
  Ranks team({2}, {.deadline_s = 0.2, .spin = true, .in_flight = {2}});
  float x = 1, y = 0;
  CollectiveCall call{.reduction = Reduction::Sum, .from = &x, .to = &y, .bytes = 4};
  auto ended =
      team.run([&](uint32_t me, Communicator& peers) { return me == 0 ? exchange(peers, call) : Status(Ok{}); });
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->code, Code::kRanksDiverge);
  EXPECT_EQ(ended->message, "rank 0 waits in AllReduce of 4 bytes for the others of group all, and rank 1 has ended");
  auto late = team.run([&](uint32_t me, Communicator& peers) {
    if (me == 1) std::this_thread::sleep_for(std::chrono::milliseconds(600));
    return exchange(peers, call);
  });
  ASSERT_TRUE(late);
  EXPECT_EQ(late->message,
            "rank 0 waits in AllReduce of 4 bytes for the others of group all, and they have not come in 0.2 s");
  auto failed = team.run([&](uint32_t me, Communicator& peers) -> Status {
    if (me == 1) return error(Code::kOutOfMemory, "no room");
    return exchange(peers, call);
  });
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->message, "no room");
  auto other = team.run([&](uint32_t me, Communicator& peers) {
    CollectiveCall mine = call;
    if (me == 1) mine.kind = CollectiveKind::Broadcast, mine.reduction = Reduction::None;
    return exchange(peers, mine);
  });
  ASSERT_TRUE(other);
  EXPECT_EQ(other->message, "rank 0 comes to AllReduce of 4 bytes, rank 1 of its group all to Broadcast of 4 bytes");
  float sums[2] = {};
  auto again = team.run([&](uint32_t me, Communicator& peers) {
    CollectiveCall mine = call;
    mine.to = &sums[me];
    return exchange(peers, mine);
  });
  EXPECT_FALSE(again);
  EXPECT_EQ(sums[0] + sums[1], 4);
}

// Results that no cache keeps are written another way where they are aligned.
TEST(Combine, LargeResultsAreRightWhereverTheyLie) {
  constexpr int64_t kCount = (1 << 20) + 131, kBegin = 4;
  std::vector<float> a(kBegin + kCount), b(a.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 1009), b[i] = static_cast<float>(i % 31) / 4;
  for (int64_t offset : {0, 1}) {
    std::vector<float> out(kBegin + kCount + 2, -1.0f), in_place = b;
    const void* parts[] = {a.data(), in_place.data()};
    void* to[] = {out.data() + offset, in_place.data()};
    combine(Reduction::Sum, format::DType::F32, parts, to, kBegin, kBegin + kCount);
    for (int64_t i = 0; i < kBegin; ++i) ASSERT_EQ(out[static_cast<size_t>(i + offset)], -1.0f) << i;
    for (size_t i = kBegin; i < a.size(); ++i) {
      ASSERT_EQ(out[i + static_cast<size_t>(offset)], a[i] + b[i]) << i;
      ASSERT_EQ(in_place[i], a[i] + b[i]) << i;
    }
    EXPECT_EQ(out[a.size() + static_cast<size_t>(offset)], -1.0f);
  }
}

}  // namespace
}  // namespace nabla::comm
