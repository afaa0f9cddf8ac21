// Exchanges of a program on a GPU with other ranks, through the host: what a rank sends is copied into pinned memory, the
// ranks exchange it there as programs on CPUs do, and at the wait what came is copied back. So every engine of communication
// serves GPUs, ranks that share one too, and combines with the same bits. Where ranks exchange in the memory of their GPUs
// (comm/stream.h) addresses are handed on as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/comm/comm.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/exec/plan.h"

namespace nabla::exec {

class GpuExchanges {
 public:
  /// `driver` and `stream` outlive the object; the context is current in every call.
  GpuExchanges(const device::CudaDriver& driver, device::CudaStream stream) : driver_(driver), stream_(stream) {}
  ~GpuExchanges();
  GpuExchanges(const GpuExchanges&) = delete;
  GpuExchanges& operator=(const GpuExchanges&) = delete;

  /// Waits until the stream has come to the exchange, whose operands lie at `slots`, and starts it. E0607, E0804, and what
  /// the communicator says.
  Status start(comm::Communicator& peers, const Control& control, void* const* slots);
  /// Has an exchange of this ticket been started, and not awaited?
  bool started(uint32_t ticket) const { return open_.count(ticket) > 0; }
  Status wait(comm::Communicator& peers, uint32_t ticket);
  /// A start or a wait that a graph holds.
  struct Recorded {
    const format::Instruction* exchange;
    uint32_t ticket;
    int64_t bytes;
    bool starts;
  };
  /// Null: nothing is recorded. It outlives what follows, which is written into it.
  void record(std::vector<Recorded>* recorded) { recorded_ = recorded; }
  /// Tells the communicator what a graph is about to do again.
  Status replay(comm::Communicator& peers, const std::vector<Recorded>& recorded);
  /// Was the last error that of the communicator?
  bool by_peers() const { return by_peers_; }
  /// After a failure: no exchange is under way any more.
  void drop();

 private:
  struct Buffer {
    void* data = nullptr;
    size_t bytes = 0;
    bool busy = false;  ///< of an exchange that is under way
    bool read = false;  ///< a copy to the GPU may still read it, until the stream has been waited for
  };
  struct Open {
    std::vector<size_t> buffers;  ///< by operand
    device::CudaAddress to = 0;
    size_t bytes = 0;  ///< that come back; 0: nothing does
  };
  /// A buffer that nobody uses, made where there is none.
  Result<size_t> take(size_t bytes);
  Status passed_on(Status status);

  const device::CudaDriver& driver_;
  device::CudaStream stream_;
  std::vector<Buffer> buffers_;
  std::map<uint32_t, Open> open_;  ///< by ticket
  std::vector<Recorded>* recorded_ = nullptr;
  bool by_peers_ = false;
};

}  // namespace nabla::exec
