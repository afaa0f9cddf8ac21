// State that lives in pinned memory of the host, and its copies to and from a GPU: a stream for each direction beside that of
// the kernels. A copy begins when the kernels that were issued before it have ended; a wait holds back those after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/device/cuda_driver.h"

namespace nabla::exec {

class GpuTransfers {
 public:
  /// Memory of `bytes`, all zero, if there are any. E0607, E0804. `driver` and `stream`, that of the kernels, outlive the
  /// object; the context is current in every call.
  Status open(const device::CudaDriver& driver, device::CudaStream stream, uint64_t bytes);
  ~GpuTransfers();

  char* memory() const { return memory_; }
  /// Does an address lie there?
  bool holds(const void* at) const {
    return memory_ != nullptr && at >= memory_ && static_cast<const char*>(at) < memory_ + bytes_;
  }
  /// Makes room for the events of tickets up to this one.
  Status reserve(uint32_t ticket);
  /// Starts a copy of `slots[0]` to `slots[1]`; `out`: to the host.
  Status start(uint32_t ticket, void* const* slots, size_t bytes, bool out);
  Status wait(uint32_t ticket);
  /// After a failure: nothing is on its way any more.
  void drop();

 private:
  const device::CudaDriver* driver_ = nullptr;
  device::CudaStream stream_ = nullptr, in_ = nullptr, out_ = nullptr;
  device::CudaEvent before_ = nullptr;  ///< of the kernels that a copy has to come after
  std::vector<device::CudaEvent> done_;  ///< by ticket; null: none was asked for
  char* memory_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace nabla::exec
