// What supervised ranks say of their progress, in words: who waits for whom.
#pragma once

#include <string>
#include <vector>

#include "runtime/control/coordinator.h"

namespace nabla::cli {

/// "run 120  43.1 runs/s  12.4 MB/s exchanged  loss 0.12  rank 2 waits least: 3 % of its time, others up to 41 %". `before`
/// is an earlier view, from which rates follow; empty: there is none. Empty when no run has begun.
std::string progress_line(const std::vector<control::RankView>& before, const std::vector<control::RankView>& now);
/// How long each rank has waited in exchanges, and which was slowest: the one that waited least, where another has waited
/// for 5 % of the time more. If every rank has waited for more than half of its time, a warning reports
/// the bytes per second that each rank sent. For more than 8 ranks, names only those that waited least and most. Empty if no rank has
/// waited.
std::string waits_line(const std::vector<control::RankView>& ranks);

/// One line of a terminal on stderr, drawn again and again; nothing where stderr is no terminal.
class LiveLine {
 public:
  LiveLine();
  ~LiveLine() { clear(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;
  /// At most four times a second, or as often as ranks are heard of.
  void draw(const control::Coordinator& coordinator);
  void clear();

 private:
  bool terminal_, shown_ = false;
  int64_t drawn_us_ = 0;
  std::vector<control::RankView> before_, now_;
};

}  // namespace nabla::cli
