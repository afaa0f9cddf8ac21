// Ranks that are threads of one process: they read each other's memory, and wait for each other at counters.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/comm.h"
#include "runtime/format/ranks_generated.h"

namespace nabla::comm {

struct LocalOptions {
  double deadline_s = 300;  ///< how long a rank waits for its partners
  bool spin = true;         ///< look at counters for a while before sleeping; for as many threads as CPUs at most
  std::vector<uint32_t> in_flight;  ///< of its programs
};

/// How many exchanges a program may have started since the first one that it has not awaited yet, at most.
uint32_t in_flight(const format::Program& program);

/// All ranks of a table, whose combinations do not depend on their timing: they are made in the order of the members.
class LocalRanks {
 public:
  /// `ranks` has passed the checks of the bundle reader, and outlives the object.
  LocalRanks(const format::Ranks& ranks, const LocalOptions& options);
  ~LocalRanks();
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  Communicator& rank(uint32_t rank);
  /// Which member of group `group` of its class a rank is.
  uint32_t place(uint32_t rank, uint32_t group) const;

  /// Before a run of all ranks, while none of them runs: forgets the failure of the last one.
  void begin();
  /// A rank's run is over, well or not. The first error is what all others that wait for it get.
  void end(uint32_t rank, const Status& status);
  /// The first error of this run.
  std::optional<Diagnostic> failure() const;

 private:
  class Rank;
  struct World;
  std::unique_ptr<World> world_;
};

}  // namespace nabla::comm
