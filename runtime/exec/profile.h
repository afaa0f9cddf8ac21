// Where the time of traced runs went, by what ran at which line.
#pragma once

#include <string>
#include <vector>

#include "runtime/device/limits.h"
#include "runtime/exec/session.h"
#include "runtime/exec/trace.h"

namespace nabla::exec {

/// A kernel, a library's problem or a copy, at one line of the program. All figures are of one run of the entry.
struct ProfileRow {
  std::string name;     ///< of the kernel or the op
  std::string kind;     ///< "kernel", "library" or "copy"
  std::string problem;  ///< of a library, with the sizes of the run; else empty
  std::string source;   ///< "model.py:12"; empty: unknown
  double calls = 0;
  double seconds = 0;   ///< the median of the runs
  double flops = 0;     ///< 0: none, or unknown
  double bytes = 0;     ///< that are read and written, each once a call
  double of_peak = -1;  ///< the least time that this machine needs, over `seconds`; negative: unknown
};

struct EntryProfile {
  std::string entry;
  int64_t runs = 0;              ///< without the first, which warms up, where there are others
  double seconds = 0;            ///< of one run: the median
  std::vector<ProfileRow> rows;  ///< the slowest first

  /// What a run needs between the instructions of `rows`.
  double between() const;
};

struct Profile {
  std::vector<EntryProfile> entries;  ///< in the order of their first runs
  device::Limits limits;              ///< of this machine
  uint64_t dropped = 0;               ///< instructions that ran after the trace was full, which no row counts
};

/// Of runs that came to their end. What loops and branches need themselves is in no row.
Profile profile_of(const TraceRecorder& trace, const device::Limits& limits);

/// A table for people, with at most `most` rows of an entry.
std::string str(const Profile& profile, size_t most = 40);
/// A JSON array with the fields of EntryProfile, and those of the rows.
std::string json(const Profile& profile);

/// A line per kind of exchange.
std::string str(const std::vector<ExchangeCount>& exchanges);
/// A JSON array with the fields of ExchangeCount.
std::string json(const std::vector<ExchangeCount>& exchanges);

}  // namespace nabla::exec
