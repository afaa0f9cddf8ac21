// A process that runs one rank of a world, the others elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/comm/world.h"

namespace nabla::comm {

/// How long a rank waits in an exchange of so many bytes, in seconds: one more for every MiB.
inline double allowed_s(double deadline_s, uint64_t bytes) { return deadline_s + static_cast<double>(bytes) / (1 << 20); }

/// `Rank` is a Communicator with `number`, `end`, `failure` and `pass` beside. After an error nothing more can be exchanged.
template <class Rank>
class OneRank final : public World {
 public:
  explicit OneRank(std::unique_ptr<Rank> rank) : here_{rank->number()}, rank_(std::move(rank)) {}

  const std::vector<uint32_t>& here() const override { return here_; }
  Communicator& rank(uint32_t rank) override {
    NABLA_CHECK(rank == here_[0], "rank {} runs elsewhere", rank);
    return *rank_;
  }
  void begin() override {}
  void end(uint32_t, const Status& status) override { rank_->end(status); }
  std::optional<Diagnostic> failure() const override { return rank_->failure(); }
  Status pass(uint32_t from, uint32_t to, void* data, uint64_t bytes) override { return rank_->pass(from, to, data, bytes); }

 private:
  std::vector<uint32_t> here_;
  std::unique_ptr<Rank> rank_;
};

}  // namespace nabla::comm
