// Copies between the caller's arrays and a GPU, through two pinned buffers in turn: one is filled or emptied while the
// other is on its way. All copies are in the order of one stream.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/comm/stream.h"
#include "runtime/device/cuda_driver.h"

namespace nabla::exec {

class GpuStaging {
 public:
  /// `peers`: whose exchanges the stream waits for; null: nobody's.
  explicit GpuStaging(comm::StreamCommunicator* peers) : peers_(peers) {}
  /// E0607, E0804. `driver` and `stream` outlive the object; the context is current in every call.
  Status open(const device::CudaDriver& driver, device::CudaStream stream);
  ~GpuStaging();

  /// Returns when `from` was read.
  Status upload(device::CudaAddress to, const void* from, size_t bytes);
  /// `to` is written by `finish` at the latest.
  Status download(void* to, device::CudaAddress from, size_t bytes);
  /// Waits for everything in the stream, and delivers what came.
  Status finish();
  /// Waits for everything in the stream: errors of who keeps it waiting too.
  Status settle();
  /// After a failure: nothing is written any more.
  void drop();

  static constexpr size_t kBytes = size_t{4} << 20;  ///< of each buffer

 private:
  struct Piece {
    void* to;
    size_t offset, bytes;
  };
  struct Buffer {
    char* data = nullptr;
    size_t used = 0;
    device::CudaEvent event = nullptr;
    bool on_its_way = false;  ///< `event` was recorded after its copies
    std::vector<Piece> pieces;
  };
  /// Room in the current buffer for up to `bytes`; takes the other one when it is full.
  Result<size_t> reserve(size_t bytes);
  static void deliver(Buffer& buffer);

  comm::StreamCommunicator* peers_;
  const device::CudaDriver* driver_ = nullptr;
  device::CudaStream stream_ = nullptr;
  Buffer buffers_[2];
  int current_ = 0;
};

}  // namespace nabla::exec
