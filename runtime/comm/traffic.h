// What a rank exchanges, counted: figures that a report states before the run.
#pragma once

#include <vector>

#include "runtime/comm/comm.h"

namespace nabla::comm {

/// Collectives of one kind, group and dtype that a rank has started.
struct Traffic {
  format::CollectiveKind kind = format::CollectiveKind::AllReduce;
  uint32_t group = 0;
  format::DType dtype = format::DType::F32;
  uint64_t calls = 0;
  /// Of the whole buffers: what all_gather brings together, what the others start from. How many of them a rank sends
  /// depends on the algorithm.
  uint64_t payload_bytes = 0;
};

/// A rank's end that counts what goes through it.
class CountingCommunicator final : public Communicator {
 public:
  /// `to` outlives it.
  explicit CountingCommunicator(Communicator& to) : to_(to) {}

  Status start(uint32_t ticket, const CollectiveCall& call) override;
  Status send(uint32_t ticket, uint32_t channel, const void* from, uint64_t bytes, const format::Instruction* at) override {
    return to_.send(ticket, channel, from, bytes, at);
  }
  Status recv(uint32_t ticket, uint32_t channel, void* to, uint64_t bytes, const format::Instruction* at) override {
    return to_.recv(ticket, channel, to, bytes, at);
  }
  Status wait(uint32_t ticket) override { return to_.wait(ticket); }
  uint32_t members(uint32_t group) const override { return to_.members(group); }
  StreamCommunicator* on_stream() override { return to_.on_stream(); }

  /// In the order in which each was first started.
  const std::vector<Traffic>& counted() const { return counted_; }

 private:
  Communicator& to_;
  std::vector<Traffic> counted_;
};

}  // namespace nabla::comm
