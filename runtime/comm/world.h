// The ranks of a bundle that run in this process, and the way from each of them to all others.
#pragma once

#include <optional>
#include <vector>

#include "runtime/comm/comm.h"

namespace nabla::comm {

class World {
 public:
  virtual ~World() = default;

  /// The ranks that this process runs, ascending.
  virtual const std::vector<uint32_t>& here() const = 0;
  /// The end of one of them.
  virtual Communicator& rank(uint32_t rank) = 0;

  /// Before a run of all ranks, while none of them runs here.
  virtual void begin() = 0;
  /// The run of a rank of this process is over, well or not.
  virtual void end(uint32_t rank, const Status& status) = 0;
  /// The first error of this run that is known here.
  virtual std::optional<Diagnostic> failure() const = 0;

  /// Between runs: hands bytes of one rank to another that runs elsewhere. Every process that runs one of them calls it
  /// in the same order: `data` is read where `from` runs, and written where `to` runs.
  virtual Status pass(uint32_t from, uint32_t to, void* data, uint64_t bytes) = 0;
};

}  // namespace nabla::comm
