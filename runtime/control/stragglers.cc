#include "runtime/control/stragglers.h"

#include <algorithm>
#include <sstream>

namespace nabla::control {
namespace {

constexpr double kMuch = 0.3;  // of the time: so much more the second one waits

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(std::move(line));
  return out;
}

}  // namespace

// Options are compared line by line. If the first lines that differ are of two options, the one that the other rank has in no later
// line is missing there.
Diagnostic other_job(uint32_t rank, const std::string& job, uint32_t other, const std::string& other_job) {
  std::vector<std::string> ours = lines_of(job), theirs = lines_of(other_job);
  size_t i = 0;
  while (i < ours.size() && i < theirs.size() && ours[i] == theirs[i]) ++i;
  auto option = [](const std::string& line) { return line.substr(0, line.find('\t')); };
  auto has = [&](size_t line) { return line < ours.size() && i < theirs.size() && option(ours[line]) == option(theirs[i]); };
  bool both = has(i), only_ours = !both && i >= theirs.size();
  for (size_t later = i + 1; !both && later < ours.size(); ++later) only_ours = only_ours || has(later);
  std::string rest = " without it", &line = only_ours ? ours[i] : theirs[i];
  if (both) rest = " with " + ours[i];
  if (both && line.find("(content ") != line.npos) rest += ": every rank needs the same file";
  Diagnostic d = error(Code::kRanksDisagree, "rank {} was started with {}, rank {}{}", only_ours ? rank : other, line,
                       only_ours ? other : rank, rest);
  std::replace(d.message.begin(), d.message.end(), '\t', ' ');
  d.help = "start every rank with the same options and the same files";
  return d;
}

std::string SlowRanks::look(const std::vector<RankView>& now, double window_s) {
  if (before_.size() != now.size()) before_ = now, told_.assign(now.size(), false);
  std::vector<std::pair<double, size_t>> shares;  // of the time that a rank has waited
  for (size_t r = 0; r < now.size(); ++r) {
    auto running = static_cast<double>(now[r].running_us - before_[r].running_us);
    if (now[r].state.has_left() || running < window_s * 1e6) return "";
    int64_t waited = now[r].waited_us + now[r].waiting_us - before_[r].waited_us - before_[r].waiting_us;
    shares.emplace_back(static_cast<double>(waited) / running, r);
  }
  before_ = now;
  if (shares.size() < 2) return "";
  std::partial_sort(shares.begin(), shares.begin() + 2, shares.end());
  auto [least, slow] = shares[0];
  if (shares[1].first - least < kMuch || told_[slow]) return "";
  told_[slow] = true;
  return fmt::format("warning: rank {} on {} is slow: in {:.1f} s it waited for others {:.0f} % of the time, and every other rank "
                     "{:.0f} % or more", slow, now[slow].host, window_s, 100 * std::max(0.0, least), 100 * shares[1].first);
}

}  // namespace nabla::control
