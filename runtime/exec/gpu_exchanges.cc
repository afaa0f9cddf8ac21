#include "runtime/exec/gpu_exchanges.h"

#include <algorithm>

#include "runtime/exec/engine.h"
#include "runtime/format/collective.h"

namespace nabla::exec {
GpuExchanges::~GpuExchanges() {
  for (const Buffer& b : buffers_) (void)driver_.host_free(b.data);
}

// The smallest that is large enough: a step asks for the same sizes as the one before.
Result<size_t> GpuExchanges::take(size_t bytes) {
  size_t best = buffers_.size();
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const Buffer& b = buffers_[i];
    if (!b.busy && !b.read && b.bytes >= bytes && (best == buffers_.size() || b.bytes < buffers_[best].bytes)) best = i;
  }
  if (best == buffers_.size()) {
    Buffer made{nullptr, std::max<size_t>(bytes, 64)};
    int status = driver_.host_alloc(&made.data, made.bytes, 0);
    if (status == device::kCudaOutOfMemory)
      return error(Code::kOutOfMemory, "an exchange with other ranks needs {} bytes of pinned memory of the host", made.bytes);
    (void)NABLA_TRY(driver_.check("allocating pinned memory", status));
    buffers_.push_back(made);
  }
  buffers_[best].busy = true;
  return best;
}

Status GpuExchanges::passed_on(Status status) {
  by_peers_ = !status.ok();
  return status;
}

Status GpuExchanges::start(comm::Communicator& peers, const Control& control, void* const* slots) {
  if (peers.on_stream() != nullptr) {
    open_[control.ticket];
    if (recorded_ != nullptr) recorded_->push_back({control.exchange, control.ticket, control.bytes, true});
    return passed_on(start_exchange(peers, control, slots));
  }
  auto bytes = static_cast<size_t>(control.bytes);
  const format::Collective* call = control.exchange->action_as_Collective();
  bool recv = control.exchange->action_type() == format::Action::Recv;
  Open open;
  if (recv) open.bytes = bytes;
  if (call != nullptr) {
    open.bytes = result_bytes<size_t>(format::def_of(call->kind()), bytes, peers.members(call->group()));
  }
  open.to = device::address(call != nullptr ? slots[1] : slots[0]);
  open.buffers.push_back(NABLA_TRY(take(bytes)));
  void* places[2] = {buffers_[open.buffers[0]].data, buffers_[open.buffers[0]].data};
  if (call != nullptr && slots[0] != slots[1]) {
    open.buffers.push_back(NABLA_TRY(take(open.bytes)));
    places[1] = buffers_[open.buffers[1]].data;
  }
  by_peers_ = false;
  if (!recv && bytes > 0)
    (void)NABLA_TRY(driver_.check("copying from the GPU", driver_.copy_out(places[0], device::address(slots[0]), bytes, stream_)));
  (void)NABLA_TRY(driver_.check("waiting for the GPU", driver_.stream_synchronize(stream_)));
  for (Buffer& b : buffers_) b.read = false;
  open_[control.ticket] = std::move(open);
  return passed_on(start_exchange(peers, control, places));
}

Status GpuExchanges::wait(comm::Communicator& peers, uint32_t ticket) {
  auto found = open_.find(ticket);
  NABLA_CHECK(found != open_.end(), "exchange {} has not been started", ticket);
  (void)NABLA_TRY(passed_on(peers.wait(ticket)));
  if (recorded_ != nullptr) recorded_->push_back({nullptr, ticket, 0, false});
  Open open = std::move(found->second);
  open_.erase(found);
  if (open.buffers.empty()) return Ok{};
  Buffer& last = buffers_[open.buffers.back()];
  for (size_t b : open.buffers) buffers_[b].busy = false;
  if (open.bytes == 0) return Ok{};
  last.read = true;
  return driver_.check("copying to the GPU", driver_.copy_in(open.to, last.data, open.bytes, stream_));
}

Status GpuExchanges::replay(comm::Communicator& peers, const std::vector<Recorded>& recorded) {
  void* nowhere[2] = {nullptr, nullptr};  // the graph knows
  for (const Recorded& r : recorded) {
    Control control;
    control.exchange = r.exchange, control.ticket = r.ticket, control.bytes = r.bytes;
    (void)NABLA_TRY(passed_on(r.starts ? start_exchange(peers, control, nowhere) : peers.wait(r.ticket)));
  }
  return Ok{};
}

void GpuExchanges::drop() {
  (void)driver_.stream_synchronize(stream_);
  for (Buffer& b : buffers_) b.busy = b.read = false;
  open_.clear();
}

}  // namespace nabla::exec
