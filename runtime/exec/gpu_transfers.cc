#include "runtime/exec/gpu_transfers.h"

#include <cstring>

namespace nabla::exec {
Status GpuTransfers::open(const device::CudaDriver& driver, device::CudaStream stream, uint64_t bytes) {
  driver_ = &driver, stream_ = stream;
  if (bytes == 0) return Ok{};
  void* memory = nullptr;
  int status = driver.host_alloc(&memory, bytes, 0);
  if (status == device::kCudaOutOfMemory)
    return error(Code::kOutOfMemory, "the program needs {} bytes of pinned memory of the host for its state", bytes);
  (void)NABLA_TRY(driver.check("allocating pinned memory", status));
  memory_ = static_cast<char*>(memory), bytes_ = bytes;
  std::memset(memory_, 0, bytes);
  (void)NABLA_TRY(driver.check("making a stream", driver.stream_create(&in_, device::kNonBlocking)));
  (void)NABLA_TRY(driver.check("making a stream", driver.stream_create(&out_, device::kNonBlocking)));
  return driver.check("making an event", driver.event_create(&before_, device::kNoTiming));
}

GpuTransfers::~GpuTransfers() {
  for (device::CudaStream stream : {in_, out_})
    if (stream != nullptr) (void)driver_->stream_destroy(stream);
  for (device::CudaEvent event : done_)
    if (event != nullptr) (void)driver_->event_destroy(event);
  if (before_ != nullptr) (void)driver_->event_destroy(before_);
  if (memory_ != nullptr) (void)driver_->host_free(memory_);
}

Status GpuTransfers::reserve(uint32_t ticket) {
  if (ticket >= done_.size()) done_.resize(ticket + 1, nullptr);
  if (done_[ticket] != nullptr) return Ok{};
  return driver_->check("making an event", driver_->event_create(&done_[ticket], device::kNoTiming));
}

Status GpuTransfers::start(uint32_t ticket, void* const* slots, size_t bytes, bool out) {
  device::CudaStream stream = out ? out_ : in_;
  (void)NABLA_TRY(driver_->check("recording an event", driver_->event_record(before_, stream_)));
  (void)NABLA_TRY(driver_->check("waiting for an event", driver_->stream_wait(stream, before_, 0)));
  int copied = out ? driver_->copy_out(slots[1], device::address(slots[0]), bytes, stream)
                   : driver_->copy_in(device::address(slots[1]), slots[0], bytes, stream);
  (void)NABLA_TRY(driver_->check("copying state", copied));
  return driver_->check("recording an event", driver_->event_record(done_[ticket], stream));
}

Status GpuTransfers::wait(uint32_t ticket) {
  return driver_->check("waiting for an event", driver_->stream_wait(stream_, done_[ticket], 0));
}

void GpuTransfers::drop() {
  for (device::CudaStream stream : {in_, out_})
    if (stream != nullptr) (void)driver_->stream_synchronize(stream);
}

}  // namespace nabla::exec
