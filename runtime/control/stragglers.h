// Reports of the coordinator on ranks that differ from the others: they were started with other options, or are slower.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/control/coordinator.h"

namespace nabla::control {

/// Two ranks were started with other options, a line each, as "--seed\t7". E0614 with the first line by which they differ.
Diagnostic other_job(uint32_t rank, const std::string& job, uint32_t other, const std::string& other_job);

/// Finds the rank that the others wait for. A slow rank causes no error, so it is found by the time that each rank spends waiting.
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
