#include "tests/cuda/emulator/warp_costs.h"

#include <algorithm>
#include <set>
#include <span>
#include <tuple>

namespace nabla::emulator {
namespace {

constexpr uint64_t kSector = 32, kWord = 4, kBanks = 32;
constexpr int kMostBytes = 16;  // of an access

// The units of so many bytes that accesses touch.
template <class Accesses>
std::set<uint64_t> touched(const Accesses& group, uint64_t unit) {
  std::set<uint64_t> out;
  for (const auto& a : group)
    for (uint64_t u = a.at / unit; u <= (a.at + static_cast<uint64_t>(a.bytes) - 1) / unit; ++u) out.insert(u);
  return out;
}

int64_t up(size_t n, uint64_t of) { return static_cast<int64_t>((n + of - 1) / of); }

}  // namespace

void WarpCosts::begin_block(int threads) { threads_ = threads, visits_.clear(), all_.clear(); }

void WarpCosts::access(int thread, const void* pc, bool shared, uint64_t at, int bytes) {
  // The host's compiler copies a pack part by part, one after the other: they are one access.
  if (!all_.empty()) {
    Access& last = all_.back();
    const bool same = last.warp == thread / 32 && last.lane == thread % 32 && last.shared == shared && last.last_pc < pc;
    if (same && last.at + static_cast<uint64_t>(last.bytes) == at && last.bytes + bytes <= kMostBytes) {
      last.bytes += bytes, last.last_pc = pc;
      return;
    }
  }
  std::vector<uint32_t>& visits = visits_[pc];
  visits.resize(static_cast<size_t>(threads_));
  all_.push_back({pc, pc, thread / 32, thread % 32, bytes, visits[static_cast<size_t>(thread)]++, shared, at});
}

void WarpCosts::end_block(Traffic& out) {
  auto together = [](const Access& a) { return std::tuple(a.shared, a.pc, a.warp, a.visit); };
  std::stable_sort(all_.begin(), all_.end(), [&](const Access& a, const Access& b) {
    return std::tuple(together(a), a.lane) < std::tuple(together(b), b.lane);
  });
  for (auto first = all_.begin(); first != all_.end();) {
    auto last = std::find_if(first, all_.end(), [&](const Access& a) { return together(a) != together(*first); });
    std::span<const Access> group(first, last);
    if (!first->shared) {
      out.sectors += static_cast<int64_t>(touched(group, kSector).size());
      out.least_sectors += up(touched(group, 1).size(), kSector);
    } else {
      // Banks give 128 bytes in a clock: accesses of 8 bytes are served by halves of a warp, those of 16 by quarters.
      const int lanes = 32 * 4 / std::max(4, first->bytes);
      for (int from = 0; from < 32; from += lanes) {
        std::vector<Access> served;
        for (const Access& a : group)
          if (a.lane >= from && a.lane < from + lanes) served.push_back(a);
        std::map<uint64_t, int64_t> of_bank;
        const std::set<uint64_t> words = touched(served, kWord);
        for (uint64_t w : words) ++of_bank[w % kBanks];
        int64_t most = 0;
        for (const auto& [bank, n] : of_bank) most = std::max(most, n);
        out.bank_clocks += most, out.least_bank_clocks += up(words.size(), kBanks);
      }
    }
    first = last;
  }
  all_.clear();
}

}  // namespace nabla::emulator
