// What every engine of communication does, on ranks that are threads.
#include "runtime/comm/local.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "runtime/base/dtype.h"

namespace nabla::comm {
namespace {

using format::CollectiveKind;
using format::Reduction;

// `count` ranks of one class, with a group of all and one of every digit; a channel from each rank to the next.
class Ranks {
 public:
  explicit Ranks(std::vector<uint32_t> axes, LocalOptions options = {}) {
    format::RanksT table;
    table.count = 1;
    for (uint32_t a : axes) table.count *= a;
    table.classes.push_back(std::make_unique<format::ClassT>());
    table.classes[0]->name = "main", table.classes[0]->digits = {format::Digit(1, table.count)};
    auto add = [&](std::string name, std::vector<format::Digit> digits) {
      table.classes[0]->groups.push_back(static_cast<uint32_t>(table.groups.size()));
      table.groups.push_back(std::make_unique<format::GroupT>());
      table.groups.back()->name = std::move(name), table.groups.back()->digits = std::move(digits);
    };
    add("all", {format::Digit(1, table.count)});
    uint32_t stride = table.count;
    for (uint32_t a : axes) {
      stride /= a;
      add(fmt::format("axis of {}", a), {format::Digit(stride, a)});
    }
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(format::Ranks::Pack(builder, &table));
    bytes_.assign(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
    if (options.in_flight.empty()) options.in_flight = {4};
    ranks = std::make_unique<LocalRanks>(*flatbuffers::GetRoot<format::Ranks>(bytes_.data()), options);
    count = table.count;
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

// The collective by its definition, on values that are the same in all element types: small integers.
std::vector<int64_t> expected(const CollectiveCall& c, const std::vector<std::vector<int64_t>>& parts, size_t me) {
  size_t n = parts.size(), size = parts[0].size(), part = size / n;
  std::vector<int64_t> out;
  auto folded = [&](size_t i) {
    int64_t v = parts[0][i];
    for (size_t m = 1; m < n; ++m) {
      int64_t w = parts[m][i];
      v = c.reduction == Reduction::Sum    ? v + w
          : c.reduction == Reduction::Prod ? v * w
          : c.reduction == Reduction::Max  ? std::max(v, w)
          : c.reduction == Reduction::Min  ? std::min(v, w)
          : c.reduction == Reduction::And  ? (v & w)
                                           : (v | w);
    }
    return v;
  };
  switch (c.kind) {
    case CollectiveKind::AllReduce:
      for (size_t i = 0; i < size; ++i) out.push_back(folded(i));
      break;
    case CollectiveKind::ReduceScatter:
      for (size_t i = 0; i < part; ++i) out.push_back(folded(me * part + i));
      break;
    case CollectiveKind::AllGather:
      for (const auto& p : parts) out.insert(out.end(), p.begin(), p.end());
      break;
    case CollectiveKind::AllToAll:
      for (const auto& p : parts)
        out.insert(out.end(), p.begin() + static_cast<long>(me * part), p.begin() + static_cast<long>((me + 1) * part));
      break;
    case CollectiveKind::Permute:
      out.assign(size, 0);
      for (size_t m = 0; m < n; ++m)
        if (c.targets[m] == static_cast<int32_t>(me)) out = parts[m];
      break;
    case CollectiveKind::Broadcast:
      out = parts[c.root];
  }
  return out;
}

TEST(LocalRanks, EveryCollectiveOfEveryType) {
  Ranks team({2, 3});
  int32_t targets[] = {2, -1, 0};
  for (int d = 0; d < kDTypeCount; ++d) {
    auto dtype = static_cast<DType>(d);
    for (int k = 0; k <= static_cast<int>(CollectiveKind::MAX); ++k)
      for (int r = 0; r <= static_cast<int>(Reduction::MAX); ++r) {
        CollectiveCall call{.kind = static_cast<CollectiveKind>(k),
                            .reduction = static_cast<Reduction>(r),
                            .dtype = static_cast<format::DType>(d),
                            .group = 2,
                            .root = 1,
                            .targets = targets};
        bool reduces = call.kind == CollectiveKind::AllReduce || call.kind == CollectiveKind::ReduceScatter;
        bool logical = call.reduction >= Reduction::And;
        if (reduces == (call.reduction == Reduction::None) || (logical && is_float(dtype)) ||
            (!logical && dtype == DType::kBool && reduces))
          continue;
        constexpr size_t kSize = 12;
        std::vector<std::vector<int64_t>> values(6), results(6);
        for (size_t m = 0; m < 6; ++m)
          for (size_t i = 0; i < kSize; ++i)
            values[m].push_back(dtype == DType::kBool ? (m + i) % 2 : (m * 5 + i * 3) % 4);
        auto failed = team.run([&](uint32_t me, Communicator& peers) {
          std::vector<char> from(kSize * 8), to(kSize * 8 * 3);
          for (size_t i = 0; i < kSize; ++i) set_int(dtype, from.data(), static_cast<int64_t>(i), values[me][i]);
          CollectiveCall mine = call;
          mine.from = from.data(), mine.to = to.data(), mine.bytes = kSize * static_cast<uint64_t>(bytes_of(dtype));
          Status done = exchange(peers, mine);
          std::vector<std::vector<int64_t>> group;
          for (uint32_t m = 0; m < 3; ++m) group.push_back(values[me / 3 * 3 + m]);
          size_t count = expected(call, group, me % 3).size();
          for (size_t i = 0; i < count; ++i) results[me].push_back(get_int(dtype, to.data(), static_cast<int64_t>(i)));
          return done;
        });
        ASSERT_FALSE(failed) << failed->message;
        for (size_t me = 0; me < 6; ++me) {
          std::vector<std::vector<int64_t>> group(values.begin() + static_cast<long>(me / 3 * 3),
                                                  values.begin() + static_cast<long>(me / 3 * 3 + 3));
          EXPECT_EQ(results[me], expected(call, group, me % 3))
              << name_of(dtype) << " " << format::EnumNameCollectiveKind(call.kind) << " "
              << format::EnumNameReduction(call.reduction) << " rank " << me;
        }
      }
  }
}

TEST(LocalRanks, SumsAreInTheOrderOfTheMembersAndMayBeInPlace) {
  Ranks team({4});
  for (int size : {1, 3, 5000}) {
    std::vector<std::vector<float>> values(4, std::vector<float>(static_cast<size_t>(size)));
    for (size_t m = 0; m < 4; ++m)
      for (size_t i = 0; i < values[m].size(); ++i)
        values[m][i] = std::ldexp(1.0f + static_cast<float>(i % 7), static_cast<int>(m) * 9 - 12);
    std::vector<float> sum = values[0];
    for (size_t m = 1; m < 4; ++m)
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[m][i];
    auto failed = team.run([&](uint32_t me, Communicator& peers) {
      float* own = values[me].data();
      return exchange(peers, {.reduction = Reduction::Sum, .from = own, .to = own, .bytes = values[me].size() * 4});
    });
    ASSERT_FALSE(failed);
    for (const auto& v : values) EXPECT_EQ(v, sum);
  }
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

}  // namespace
}  // namespace nabla::comm
