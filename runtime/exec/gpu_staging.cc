#include "runtime/exec/gpu_staging.h"

#include <algorithm>
#include <cstring>

namespace nabla::exec {
namespace {

constexpr size_t kAlign = 64;

}  // namespace

Status GpuStaging::open(const device::CudaDriver& driver, device::CudaStream stream) {
  driver_ = &driver;
  stream_ = stream;
  for (Buffer& buffer : buffers_) {
    void* data = nullptr;
    (void)NABLA_TRY(driver.check("allocating pinned memory", driver.host_alloc(&data, kBytes, 0)));
    buffer.data = static_cast<char*>(data);
    (void)NABLA_TRY(driver.check("making an event", driver.event_create(&buffer.event, device::kNoTiming)));
  }
  return Ok{};
}

GpuStaging::~GpuStaging() {
  for (Buffer& buffer : buffers_) {
    if (buffer.event != nullptr) (void)driver_->event_destroy(buffer.event);
    if (buffer.data != nullptr) (void)driver_->host_free(buffer.data);
  }
}

void GpuStaging::deliver(Buffer& buffer) {
  for (const Piece& piece : buffer.pieces) std::memcpy(piece.to, buffer.data + piece.offset, piece.bytes);
  buffer.pieces.clear();
  buffer.used = 0;
  buffer.on_its_way = false;
}

Result<size_t> GpuStaging::reserve(size_t bytes) {
  if (buffers_[current_].used == kBytes) {
    Buffer& full = buffers_[current_];
    (void)NABLA_TRY(driver_->check("recording an event", driver_->event_record(full.event, stream_)));
    full.on_its_way = true;
    current_ ^= 1;
    Buffer& next = buffers_[current_];
    if (next.on_its_way && peers_ != nullptr) (void)NABLA_TRY(peers_->settle());
    if (next.on_its_way) (void)NABLA_TRY(driver_->check("copying", driver_->event_synchronize(next.event)));
    deliver(next);
  }
  return std::min(bytes, kBytes - buffers_[current_].used);
}

Status GpuStaging::upload(device::CudaAddress to, const void* from, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    size_t part = NABLA_TRY(reserve(bytes - done));
    Buffer& buffer = buffers_[current_];
    char* at = buffer.data + buffer.used;
    std::memcpy(at, static_cast<const char*>(from) + done, part);
    (void)NABLA_TRY(driver_->check("copying to the GPU", driver_->copy_in(to + done, at, part, stream_)));
    buffer.used = std::min(kBytes, (buffer.used + part + kAlign - 1) / kAlign * kAlign);
    done += part;
  }
  return Ok{};
}

Status GpuStaging::download(void* to, device::CudaAddress from, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    size_t part = NABLA_TRY(reserve(bytes - done));
    Buffer& buffer = buffers_[current_];
    (void)NABLA_TRY(driver_->check("copying from the GPU",
                                   driver_->copy_out(buffer.data + buffer.used, from + done, part, stream_)));
    buffer.pieces.push_back({static_cast<char*>(to) + done, buffer.used, part});
    buffer.used = std::min(kBytes, (buffer.used + part + kAlign - 1) / kAlign * kAlign);
    done += part;
  }
  return Ok{};
}

Status GpuStaging::settle() {
  if (peers_ != nullptr) (void)NABLA_TRY(peers_->settle());
  return driver_->check("waiting for the GPU", driver_->stream_synchronize(stream_));
}

Status GpuStaging::finish() {
  Status status = settle();
  if (!status.ok()) drop();
  for (Buffer& buffer : buffers_) deliver(buffer);
  return status;
}

void GpuStaging::drop() {
  // Copies that are still on their way go to the pinned buffers alone.
  (void)driver_->stream_synchronize(stream_);
  for (Buffer& buffer : buffers_) {
    buffer.pieces.clear();
    deliver(buffer);
  }
}

}  // namespace nabla::exec
