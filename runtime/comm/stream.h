// Ranks whose values lie in the memory of GPUs, and whose exchanges run there beside their kernels.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "runtime/comm/comm.h"

namespace nabla::device {
struct CudaDevice;
using CudaStream = struct CudaStreamTag*;
}  // namespace nabla::device

namespace nabla::comm {

/// What a graph of the rank's stream exchanges. It outlives the graph, and goes where the context is current.
class StreamGraph {
 public:
  virtual ~StreamGraph() = default;
};

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

  /// The rank's stream is about to record a graph that starts so many exchanges at most, all of them collectives. Whatever is started
  /// and awaited up to `recorded` becomes part of it, and counts as that of its first launch, which follows.
  virtual Result<std::shared_ptr<StreamGraph>> record(size_t most) = 0;
  /// What the graph has started is over where the graph is.
  virtual Status recorded() = 0;
  /// The graph is about to be launched again: what is started and awaited between these two, as when it was recorded, is in it.
  virtual void replay(StreamGraph& graph) = 0;
  virtual void replayed() = 0;

  /// Whoever records graphs that exchange values says how they are destroyed; called before the exchanges end, however they do, and no
  /// more after `detach`. NCCL waits for it: a communicator stays until no graph holds an exchange of it.
  void drop_graphs_by(std::function<void()> drop) { drop_graphs_ = std::move(drop); }

  /// It outlives the exchanges.
  void watch(Watcher* watcher) { watcher_ = watcher; }

 protected:
  void drop_graphs() {
    if (drop_graphs_) drop_graphs_();
  }

  Watcher* watcher_ = nullptr;

 private:
  std::function<void()> drop_graphs_;
};

}  // namespace nabla::comm
