// What the coordinator tells of ranks that differ from the others: in how they were started, and in how long they take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/control/coordinator.h"

namespace nabla::control {

/// Two ranks were started with other options, a line each, as "--seed\t7". E0614 with the first line by which they differ.
Diagnostic other_job(uint32_t rank, const std::string& job, uint32_t other, const std::string& other_job);

/// Finds the rank that the others wait for. Nothing fails then, and only how the ranks share their time tells of it.
class SlowRanks {
 public:
  /// Once in `window_s`, a line that names the rank which in that time waited so much less than every other one that it holds them up.
  /// Every rank is named once. Empty: nothing new.
  std::string look(const std::vector<RankView>& now, double window_s);

 private:
  std::vector<RankView> before_;
  std::vector<bool> told_;
};

}  // namespace nabla::control
