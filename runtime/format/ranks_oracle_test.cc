// Rank tables at random: what the checks accept holds of every rank, one by one.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "runtime/format/bundle_reader.h"
#include "runtime/format/ranks_check.h"
#include "runtime/format/test_programs.h"

namespace nabla::format {
namespace {

using Rng = std::mt19937_64;

int64_t any(Rng& rng, int64_t low, int64_t high) { return std::uniform_int_distribution(low, high)(rng); }

/// Digits that divide `ranks` one by one, from the slowest; now and then one that does not fit.
std::vector<Digit> draw_digits(Rng& rng, uint32_t ranks) {
  std::vector<Digit> out;
  for (uint32_t stride = 1; stride < ranks;) {
    std::vector<uint32_t> counts;
    for (uint32_t c = 2; c * stride <= ranks; ++c)
      if (ranks % (c * stride) == 0) counts.push_back(c);
    if (counts.empty()) break;
    uint32_t count = counts[any(rng, 0, static_cast<int64_t>(counts.size()) - 1)];
    if (any(rng, 0, 1) == 0) out.insert(out.begin(), Digit(stride, count));
    stride *= count;
  }
  auto small = [&] { return static_cast<uint32_t>(any(rng, 0, 5)); };
  if (any(rng, 0, 40) == 0) out.emplace_back(small(), small());
  return out;
}

struct Drawn {
  RanksT table;
  std::vector<ProgramT> programs;  // one per class, with a state leaf w
};

// Classes that fix some digits of a mesh and leave the others, so that many tables are in order.
Drawn draw(Rng& rng) {
  Drawn out;
  RanksT& t = out.table;
  const uint32_t kCounts[] = {1, 2, 3, 4, 6, 8, 12, 16};
  t.count = kCounts[any(rng, 0, 7)];
  std::vector<Digit> left = draw_digits(rng, t.count), fixed = draw_digits(rng, t.count);
  std::set<uint32_t> firsts = {0};
  for (const Digit& d : fixed)
    for (uint32_t first : std::set<uint32_t>(firsts))
      for (uint32_t v = 0; v < std::min(d.count(), 4u); ++v) firsts.insert(first + v * d.stride());
  for (int g = static_cast<int>(any(rng, 0, 2)); g > 0; --g) {
    t.groups.push_back(std::make_unique<GroupT>());
    t.groups.back()->digits = draw_digits(rng, t.count);
  }
  int64_t rows = any(rng, 0, 6), columns = any(rng, 1, 3);
  t.state.push_back(std::make_unique<WholeT>());
  t.state[0]->name = "w", t.state[0]->dtype = DType::F32, t.state[0]->shape = {rows, columns};
  bool alike = any(rng, 0, 1) == 0;  // every class is in every group
  std::vector<Digit> along = draw_digits(rng, t.count);
  std::vector<uint32_t> begins(firsts.begin(), firsts.end());
  if (any(rng, 0, 20) == 0) begins.push_back(begins.back());
  for (uint32_t first : begins) {
    auto c = static_cast<uint32_t>(t.classes.size());
    t.classes.push_back(std::make_unique<ClassT>());
    ClassT& k = *t.classes.back();
    k.name = "c" + std::to_string(c), k.first = first, k.digits = left;
    for (uint32_t g = 0; g < t.groups.size(); ++g)
      if (alike || any(rng, 0, 1) == 0) k.groups.push_back(g);
    t.state[0]->placements.push_back(std::make_unique<PlacementT>());
    PlacementT& p = *t.state[0]->placements.back();
    p.class_index = c, p.copy = c > 0 && any(rng, 0, 3) > 0;
    for (int d = 0; d < 2; ++d) p.cuts.push_back(std::make_unique<CutT>());
    int64_t parts = 1;
    if (any(rng, 0, 1) == 0) {
      p.cuts[0]->digits = any(rng, 0, 2) == 0 ? along : left;
      for (const Digit& d : p.cuts[0]->digits) parts *= std::max(d.count(), 1u);
    }
    if (any(rng, 0, 5) == 0) p.cuts[0]->begin = any(rng, -1, rows);
    int64_t extent = any(rng, 0, 3) == 0 ? any(rng, 0, 6) : (rows + parts - 1) / parts;
    ProgramT program;
    program.target = "cpu", program.arena_bytes = program.state_bytes = 4096;
    program.state.push_back(std::make_unique<StateLeafT>());
    program.state[0]->tensor = tensor("w", {extent, columns});
    out.programs.push_back(std::move(program));
  }
  if (any(rng, 0, 1) == 0 && t.classes.size() > 1) {
    auto distance = static_cast<int32_t>(t.classes[1]->first);
    for (int end : {0, 1}) {
      t.classes[end]->channels.push_back(std::make_unique<ChannelT>());
      ChannelT& channel = *t.classes[end]->channels[0];
      channel.offset = end == 0 ? distance : -distance, channel.sends = end == 0, channel.bytes = 4;
      if (any(rng, 0, 10) == 0) channel.offset += 1;
      if (any(rng, 0, 10) == 0) channel.sends = !channel.sends;
      if (any(rng, 0, 10) == 0) channel.bytes = 8;
    }
  }
  return out;
}

/// The numbers that digits make, and what they add to a rank's number: every combination.
std::map<int64_t, int64_t> sums(const std::vector<Digit>& digits) {
  std::map<int64_t, int64_t> out = {{0, 0}};
  for (const Digit& d : digits) {
    std::map<int64_t, int64_t> longer;
    for (auto [number, sum] : out)
      for (uint32_t v = 0; v < d.count(); ++v) longer[number * d.count() + v] = sum + int64_t{v} * d.stride();
    out = std::move(longer);
  }
  return out;
}

/// By rank: its class. Every rank has one.
std::map<int64_t, uint32_t> classes_by_rank(const RanksT& t) {
  std::map<int64_t, uint32_t> out;
  for (uint32_t c = 0; c < t.classes.size(); ++c)
    for (auto [number, sum] : sums(t.classes[c]->digits))
      EXPECT_TRUE(out.emplace(t.classes[c]->first + sum, c).second) << "a rank of two classes";
  for (int64_t r = 0; r < t.count; ++r) EXPECT_TRUE(out.count(r)) << "a rank of no class";
  EXPECT_EQ(out.size(), t.count);
  return out;
}

int64_t number_of(const std::vector<Digit>& digits, int64_t rank) {
  int64_t out = 0;
  for (const Digit& d : digits) out = out * d.count() + rank / d.stride() % d.count();
  return out;
}

void expect_partners(const RanksT& t, const std::map<int64_t, uint32_t>& class_of) {
  auto has = [&](int64_t rank, uint32_t group) {
    const std::vector<uint32_t>& groups = t.classes[class_of.at(rank)]->groups;
    return std::find(groups.begin(), groups.end(), group) != groups.end();
  };
  for (uint32_t g = 0; g < t.groups.size(); ++g)
    for (int64_t a = 0; a < t.count; ++a)
      for (int64_t b = 0; b < t.count; ++b) {
        const std::vector<Digit>& digits = t.groups[g]->digits;
        std::map<int64_t, int64_t> add = sums(digits);
        bool together = a - add.at(number_of(digits, a)) == b - add.at(number_of(digits, b));
        EXPECT_TRUE(!together || has(a, g) == has(b, g)) << "ranks " << a << " and " << b << " of group " << g;
      }
  for (auto [rank, c] : class_of)
    for (size_t i = 0; i < t.classes[c]->channels.size(); ++i) {
      const ChannelT& mine = *t.classes[c]->channels[i];
      auto peer = class_of.find(rank + mine.offset);
      ASSERT_NE(peer, class_of.end());
      const ChannelT& theirs = *t.classes[peer->second]->channels.at(mine.peer);
      EXPECT_EQ(peer->first + theirs.offset, rank);
      EXPECT_NE(theirs.sends, mine.sends);
      EXPECT_EQ(theirs.bytes, mine.bytes);
    }
}

// Every element is in one part of one placement that is no copy.
void expect_owners(const Drawn& drawn) {
  const WholeT& w = *drawn.table.state[0];
  std::map<std::pair<int64_t, int64_t>, std::set<std::pair<size_t, int64_t>>> owners;
  for (size_t i = 0; i < w.placements.size(); ++i) {
    const PlacementT& p = *w.placements[i];
    const ClassT& k = *drawn.table.classes[p.class_index];
    const std::vector<int64_t>& part = drawn.programs[p.class_index].state[0]->tensor->shape;
    for (auto [unused, sum] : sums(k.digits)) {
      int64_t number = number_of(p.cuts[0]->digits, k.first + sum), begin = p.cuts[0]->begin + part[0] * number;
      for (int64_t row = begin; row < std::min(begin + part[0], w.shape[0]); ++row)
        for (int64_t column = 0; column < part[1]; ++column)
          if (!p.copy) owners[{row, column}].emplace(i, number);
    }
  }
  for (int64_t row = 0; row < w.shape[0]; ++row)
    for (int64_t column = 0; column < w.shape[1]; ++column)
      EXPECT_EQ((owners[{row, column}].size()), 1u) << "element " << row << ", " << column;
}

TEST(RanksOracle, WhatIsAcceptedHoldsOfEveryRank) {
  Rng rng(1);
  int accepted = 0, refused = 0;
  for (int n = 0; n < 20000; ++n) {
    Drawn drawn = draw(rng);
    std::vector<std::vector<const ProgramT*>> programs;
    for (const ProgramT& p : drawn.programs) programs.push_back({&p});
    Result<std::string> bytes = bundle_bytes(RanksT(drawn.table), programs, {});
    ++(bytes.ok() ? accepted : refused);
    if (!bytes.ok()) continue;
    SCOPED_TRACE(fmt::format("draw {}", n));
    std::map<int64_t, uint32_t> class_of = classes_by_rank(drawn.table);
    expect_partners(drawn.table, class_of);
    expect_owners(drawn);
    if (HasFailure()) return;
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace nabla::format
