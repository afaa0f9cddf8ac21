// Ranks that are threads of one process: they read each other's memory, and wait for each other at counters.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/world.h"
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
class LocalRanks final : public World {
 public:
  /// `ranks` has passed the checks of the bundle reader, and outlives the object.
  LocalRanks(const format::Ranks& ranks, const LocalOptions& options);
  ~LocalRanks() override;
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  const std::vector<uint32_t>& here() const override;
  Communicator& rank(uint32_t rank) override;

  /// Forgets the failure of the last run.
  void begin() override;
  /// The first error is what all others that wait for the rank get.
  void end(uint32_t rank, const Status& status) override;
  std::optional<Diagnostic> failure() const override;
  Status pass(uint32_t, uint32_t, void*, uint64_t) override { return Ok{}; }  // all are here

 private:
  class Rank;
  struct World;
  std::unique_ptr<World> world_;
};

}  // namespace nabla::comm
