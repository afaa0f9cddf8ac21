#include "cli/nabla_run_team.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace nabla::cli {
namespace {

using control::RankView;

constexpr double kApart = 0.05;  // shares of waiting that differ by less say nothing of a rank

std::string rate_of_bytes(double per_s) {
  return per_s < 1e6 ? fmt::format("{:.1f} KB/s", per_s / 1e3) : per_s < 1e9 ? fmt::format("{:.1f} MB/s", per_s / 1e6)
                                                                             : fmt::format("{:.2f} GB/s", per_s / 1e9);
}

int percent(double share) { return static_cast<int>(std::lround(100 * std::clamp(share, 0.0, 1.0))); }

/// Who waits least makes the others wait.
struct Slowest {
  size_t rank = 0;
  double share = 0, others = 0;
};
Slowest slowest_of(const std::vector<double>& shares) {
  Slowest out;
  for (size_t r = 0; r < shares.size(); ++r) {
    out.others += shares[r];
    if (shares[r] < shares[out.rank]) out.rank = r;
  }
  out.share = shares[out.rank];
  out.others = shares.size() < 2 ? 0 : (out.others - out.share) / static_cast<double>(shares.size() - 1);
  return out;
}

}  // namespace

std::string team_line(const std::vector<RankView>& now, const std::vector<RankView>& before, double seconds) {
  if (now.empty() || before.size() != now.size() || seconds <= 0 || before[0].run == 0) return "";
  std::vector<double> shares;
  for (size_t r = 0; r < now.size(); ++r)
    shares.push_back(static_cast<double>(now[r].waited_us - before[r].waited_us) / 1e6 / seconds);
  Slowest slow = slowest_of(shares);
  std::string out = fmt::format("run {}", now[0].run);
  if (!now[0].said.empty()) out += "  " + now[0].said;
  out += fmt::format("  {:.4g} run/s  {} exchanged", static_cast<double>(now[0].run - before[0].run) / seconds,
                     rate_of_bytes(static_cast<double>(now[0].exchanged - before[0].exchanged) / seconds));
  if (slow.others - slow.share > kApart)
    out += fmt::format("  rank {} keeps the others waiting: it waited {} %, they {} %", slow.rank, percent(slow.share), percent(slow.others));
  return out;
}

std::string team_summary(const std::vector<RankView>& ranks, double seconds) {
  if (ranks.empty() || seconds <= 0) return "";
  std::vector<double> shares;
  std::string list;
  constexpr size_t kMost = 16;
  for (size_t r = 0; r < ranks.size(); ++r) {
    shares.push_back(static_cast<double>(ranks[r].waited_us) / 1e6 / seconds);
    if (r >= kMost) continue;
    list += fmt::format("{}{} %", r == 0 ? "" : r + 1 == ranks.size() ? " and " : ", ", percent(shares.back()));
  }
  if (ranks.size() > kMost) list += ", ...";
  Slowest slow = slowest_of(shares);
  std::string out = fmt::format("ranks waited {} of {:.1f} s", list, seconds);
  return slow.others - slow.share > kApart ? out + fmt::format("; rank {} was the slowest", slow.rank) : out;
}

}  // namespace nabla::cli
