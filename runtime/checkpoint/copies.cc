#include "runtime/checkpoint/copies.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace nabla::checkpoint {
namespace {

/// A set of digits of a class: bit i is digit i of its `Class::digits`.
using DigitSet = uint32_t;
constexpr size_t kMostDigits = 24;
constexpr size_t kMostSets = 64;  // the search tries all triples of them

/// Ranks that run the same program, and the shards that they have.
struct Class {
  std::vector<Layout::Share*> shares;
  Digits digits;               ///< every cut of every share is by some of these
  bool writes_copies = false;  ///< also the shards that ranks of other classes write
};

/// Splits the digits of all shares where one of them begins or ends. Empty: some of them overlap without one dividing the other.
Digits split_digits(const std::vector<Layout::Share*>& shares) {
  std::set<uint64_t> ends;
  auto add = [&](const Digits& digits) {
    for (const Digit& d : digits) ends.insert({d.stride, uint64_t{d.stride} * d.count});
  };
  for (const Layout::Share* s : shares) {
    add(s->ranks);
    for (const Cut& c : s->parts.cuts) add(c.digits);
  }
  Digits out;
  uint64_t before = 0;
  for (uint64_t end : ends) {
    if (before != 0 && end % before != 0) return {};
    if (before != 0) out.push_back({static_cast<uint32_t>(before), static_cast<uint32_t>(end / before)});
    before = end;
  }
  return out.size() > kMostDigits ? Digits() : out;
}

DigitSet set_of(const Digits& all, const Digits& digits) {
  DigitSet out = 0;
  for (const Digit& d : digits)
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].stride >= d.stride && uint64_t{all[i].stride} * all[i].count <= uint64_t{d.stride} * d.count) out |= DigitSet{1} << i;
  return out;
}
DigitSet set_of(const Digits& all, const Placement& parts) {
  DigitSet out = 0;
  for (const Cut& c : parts.cuts) out |= set_of(all, c.digits);
  return out;
}

double files_of(const Digits& all, DigitSet set) {
  double out = 1;
  for (size_t i = 0; i < all.size(); ++i)
    if ((set >> i & 1) != 0) out *= all[i].count;
  return out;
}

/// The smallest of these sets that includes `cut`. Nothing: none does.
std::optional<DigitSet> smallest_with(const Digits& all, const std::vector<DigitSet>& sets, DigitSet cut) {
  std::optional<DigitSet> best;
  for (DigitSet set : sets)
    if ((cut & ~set) == 0 && (!best || files_of(all, set) < files_of(all, *best))) best = set;
  return best;
}

/// At most `kMostFiles` sets, each of which is the digits in which the numbers of its files differ. `bytes`: of all shards that are cut
/// by a set of digits.
std::vector<DigitSet> cheapest_sets(const Digits& all, const std::map<DigitSet, double>& bytes) {
  std::vector<DigitSet> candidates;
  for (const auto& [set, n] : bytes) candidates.push_back(set);
  if (candidates.size() <= kMostFiles) return candidates;
  for (size_t i = 0; i < candidates.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (DigitSet both = candidates[i] | candidates[k];
          candidates.size() < kMostSets && std::find(candidates.begin(), candidates.end(), both) == candidates.end())
        candidates.push_back(both);
  DigitSet every = 0;
  for (DigitSet set : candidates) every |= set;
  candidates.push_back(every);
  std::vector<DigitSet> best;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < candidates.size(); ++i)
    for (size_t k = 0; k <= i; ++k)
      for (size_t l = 0; l <= k; ++l) {
        std::vector<DigitSet> sets{candidates[i], candidates[k], candidates[l]};
        double cost = 0;
        for (const auto& [cut, n] : bytes) {
          std::optional<DigitSet> set = smallest_with(all, sets, cut);
          cost = set ? cost + n * files_of(all, *set & ~cut) : least;
          if (cost >= least) break;
        }
        if (cost < least) best = std::move(sets), least = cost;
      }
  return best;
}

void choose_files(Class& of) {
  std::map<DigitSet, double> bytes{{set_of(of.digits, of.shares[0]->ranks), 0}};  // the rank's own file, which it opens anyway
  for (Layout::Share* s : of.shares) {
    s->written = !s->copy || of.writes_copies, s->parts.copy = s->copy;
    DigitSet cut = set_of(of.digits, s->parts);
    if (s->written) bytes[cut] += static_cast<double>(s->bytes) * files_of(of.digits, cut);
  }
  if (of.digits.empty()) return;  // one rank
  const std::vector<DigitSet> sets = cheapest_sets(of.digits, bytes);
  for (Layout::Share* s : of.shares) {
    DigitSet cut = set_of(of.digits, s->parts);
    DigitSet more = s->written ? *smallest_with(of.digits, sets, cut) & ~cut : 0;
    for (size_t i = 0; i < of.digits.size(); ++i)
      if ((more >> i & 1) != 0) s->parts.copies.push_back(of.digits[i]);
  }
}

}  // namespace

void choose_copies(std::vector<Layout::Share>& shares) {
  std::map<std::pair<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>>, Class> classes;
  std::map<int, std::vector<const Placement*>> owned;
  for (Layout::Share& s : shares) {
    std::vector<std::pair<uint32_t, uint32_t>> ranks;
    for (const Digit& d : s.ranks) ranks.emplace_back(d.stride, d.count);
    classes[{s.parts.first, std::move(ranks)}].shares.push_back(&s);
    if (!s.copy) owned[s.parts.leaf].push_back(&s.parts);
  }
  // A shard that another class writes is written again if its readers would need more files than they may.
  for (auto& [key, of] : classes) {
    of.digits = split_digits(of.shares);
    uint32_t last = key.first;
    for (auto [stride, count] : key.second) last += stride * (count - 1);
    std::set<DigitSet> own{set_of(of.digits, of.shares[0]->ranks)};
    std::set<uint32_t> elsewhere;
    for (const Layout::Share* s : of.shares) {
      if (!s->copy)
        own.insert(set_of(of.digits, s->parts));
      else
        for (const Placement* p : owned[s->parts.leaf]) p->add_files(s->box_of(last), elsewhere);
    }
    of.writes_copies = std::min(own.size(), kMostFiles) + elsewhere.size() > kMostFiles;
  }
  for (auto& [key, of] : classes) choose_files(of);
}

}  // namespace nabla::checkpoint
