// What the ranks of several processes do, in lines for people.
#pragma once

#include <string>
#include <vector>

#include "runtime/control/coordinator.h"

namespace nabla::cli {

/// "run 1234  loss 0.1234  845 run/s  12.3 MB/s exchanged  rank 2 keeps the others waiting: it waited 3 %, they 41 %". `before`
/// is the view `seconds` earlier. Empty before all ranks run.
std::string team_line(const std::vector<control::RankView>& now, const std::vector<control::RankView>& before, double seconds);

/// At the end of a run of so many seconds: "ranks waited 3 %, 41 %, 40 % and 41 % of 12.3 s; rank 0 was the slowest".
std::string team_summary(const std::vector<control::RankView>& ranks, double seconds);

}  // namespace nabla::cli
