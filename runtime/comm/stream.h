// Ranks whose values lie in the memory of GPUs, and whose exchanges run there beside their kernels.
#pragma once

#include "runtime/comm/comm.h"

namespace nabla::device {
struct CudaDevice;
using CudaStream = struct CudaStreamTag*;
}  // namespace nabla::device

namespace nabla::comm {

/// One rank's end, of which addresses are those of its GPU. `start`, `send` and `recv` put an exchange behind what the rank's
/// stream has by then, `wait` lets that stream wait for it: the thread waits in `settle` alone. An error of any function is that of
/// all that follow.
class StreamCommunicator : public Communicator {
 public:
  /// Hears how far the GPU is; exchanges are counted from 1 in the order in which they were started.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    /// The stream has come to the exchange, and the exchange is not over.
    virtual void under_way(uint64_t exchange) = 0;
    virtual void over(uint64_t exchange) = 0;
  };

  StreamCommunicator* on_stream() final { return this; }
  /// Before the first exchange, by all ranks. `stream` is that of the rank on `device`, whose context is current here and in all
  /// other calls. `program` is what the rank runs; it may be null. E0901 for what cannot be exchanged, E0605 where ranks have no
  /// GPU of their own.
  virtual Status attach(const device::CudaDevice& device, device::CudaStream stream, const format::Program* program) = 0;
  /// After the last exchange, before the context goes; does nothing where nothing was attached.
  virtual void detach() = 0;
  /// Waits until the rank's stream and all exchanges have come to their end.
  virtual Status settle() = 0;
  /// Ends all exchanges where they are: the run is over.
  virtual void abort() = 0;
  /// It outlives the exchanges.
  void watch(Watcher* watcher) { watcher_ = watcher; }

 protected:
  Watcher* watcher_ = nullptr;
};

}  // namespace nabla::comm
