#include "cli/nabla_run/waits.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/base/text.h"
#include "runtime/comm/recorder.h"

namespace nabla::cli {
namespace {

constexpr int64_t kDrawEveryUs = 250'000;
constexpr size_t kMostNamed = 8;
constexpr double kMuch = 0.05;
constexpr double kBoundByLinks = 0.5;  // share of its time that every rank waits

using control::RankView;

/// In exchanges, that which it is in among them.
int64_t waited_us(const RankView& r) { return r.waited_us + r.waiting_us; }
double share(const RankView& r) {
  return r.running_us > 0 ? std::min(1.0, static_cast<double>(waited_us(r)) / static_cast<double>(r.running_us)) : 0;
}
bool less(const RankView& a, const RankView& b) { return share(a) < share(b); }

std::string moved_bytes_str(double bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

bool on_one_machine(const std::vector<RankView>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const RankView& r) { return r.host == ranks[0].host; });
}

}  // namespace

std::string progress_line(const std::vector<RankView>& before, const std::vector<RankView>& now) {
  if (now.empty() || now[0].run == 0) return "";
  std::string out = fmt::format("run {}", now[0].run);
  double bytes = 0, runs = -1;  // a second
  for (size_t i = 0; i < now.size() && i < before.size(); ++i) {
    double seconds = static_cast<double>(now[i].running_us - before[i].running_us) / 1e6;
    if (seconds <= 0) continue;
    bytes += static_cast<double>(now[i].exchanged_bytes - before[i].exchanged_bytes) / seconds;
    if (i == 0) runs = static_cast<double>(now[0].run - before[0].run) / seconds;
  }
  if (runs >= 0) out += fmt::format("  {:.1f} runs/s  {}/s exchanged", runs, moved_bytes_str(bytes));
  if (!now[0].says.empty()) out += "  " + printable(now[0].says);
  auto [least, most] = std::minmax_element(now.begin(), now.end(), less);
  if (share(*most) > 0)
    out += fmt::format("  rank {} waits least: {:.0f} % of its time, others up to {:.0f} %", least - now.begin(), 100 * share(*least),
                       100 * share(*most));
  return out;
}

std::string waits_line(const std::vector<RankView>& ranks) {
  if (std::all_of(ranks.begin(), ranks.end(), [](const RankView& r) { return waited_us(r) == 0; })) return "";
  auto of = [&](auto rank) {
    return fmt::format("rank {} {:.2f} s ({:.0f} %)", rank - ranks.begin(), static_cast<double>(waited_us(*rank)) / 1e6,
                       100 * share(*rank));
  };
  auto [least, most] = std::minmax_element(ranks.begin(), ranks.end(), less);
  std::string list;
  if (ranks.size() <= kMostNamed)
    for (auto r = ranks.begin(); r != ranks.end(); ++r) list += (list.empty() ? "" : ", ") + of(r);
  else
    list = fmt::format("from {} to {}", of(least), of(most));
  if (share(*most) - share(*least) >= kMuch) return fmt::format("waited for others: {}; rank {} was slowest", list, least - ranks.begin());
  std::string out = fmt::format("waited for others: {}; none held the others up", list);
  // If every rank waits for most of its time, no rank is slow: the network is, or the ranks of one machine have too few cores.
  double bytes = 0, seconds = 0;
  for (const RankView& r : ranks) bytes += static_cast<double>(r.exchanged_bytes), seconds += static_cast<double>(waited_us(r)) / 1e6;
  if (share(*least) > kBoundByLinks && bytes > 0)
    out += fmt::format("; warning: {} bound this job, at {}/s for each rank",
                       on_one_machine(ranks) ? "exchanges within one machine" : "the links", moved_bytes_str(bytes / seconds));
  return out;
}

LiveLine::LiveLine() : terminal_(::isatty(STDERR_FILENO) == 1) {}

void LiveLine::draw(const control::Coordinator& coordinator) {
  int64_t us = comm::steady_us();
  if (!terminal_ || us - drawn_us_ < kDrawEveryUs) return;
  drawn_us_ = us;
  std::vector<RankView> view = coordinator.view();
  if (!now_.empty() && view[0].running_us == now_[0].running_us) return;
  before_ = std::exchange(now_, std::move(view));
  std::string line = progress_line(before_, now_);
  if (line.empty()) return;
  winsize size{};
  size_t columns = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79u;
  // The cursor goes back, so that what others print stands at the beginning of the line.
  std::fprintf(stderr, "\r\x1b[K%s\r", line.substr(0, columns).c_str());
  shown_ = true;
}

void LiveLine::clear() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
  shown_ = false;
}

}  // namespace nabla::cli
