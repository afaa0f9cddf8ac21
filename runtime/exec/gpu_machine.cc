#include "runtime/exec/gpu_machine.h"

namespace nabla::exec {
namespace {

constexpr int64_t kMaxEvents = 1 << 18;

}  // namespace

GpuMachine::GpuMachine(GpuEngine& engine, const RunRequest& request)
    : engine_(engine),
      request_(request),
      driver_(engine.driver_),
      extents_(static_cast<const GpuBound&>(*request.bound.machine).launches->extents) {}

bool GpuMachine::ok(std::string_view what, int status) {
  return status == device::kCudaOk || ok(Status(driver_.failure(what, status)));
}

bool GpuMachine::ok(Status status) {
  if (!status.ok()) failure_ = std::move(status.errors()[0]);
  return !failure_;
}

// The driver's words for what program.fbs says of a map: elements as unsigned integers, rows of 128 bytes swizzled, 0 beyond the ends.
bool GpuMachine::make_map(const format::TensorMap& m, const void* array, device::CudaTensorMap& out) {
  constexpr int kUint8 = 0, kUint16 = 1, kSwizzle128 = 3, kPromote256 = 3;
  constexpr uint32_t kOneByOne[5] = {1, 1, 1, 1, 1};
  return ok("describing an array to the copy engine",
            driver_.tensor_map(&out, m.element_bytes() == 1 ? kUint8 : kUint16, m.sizes()->size(), device::address(array) + m.offset(),
                               m.sizes()->data(), m.strides()->data(), m.box()->data(), kOneByOne, 0, kSwizzle128, kPromote256, 0));
}

bool GpuMachine::kernel(const Step& s, void* const* slots) {
  if (s.units <= 0) return true;
  std::vector<void*>& args = engine_.args_;
  args.clear();
  for (uint32_t i = 0; i < s.args; ++i) args.push_back(const_cast<void**>(&slots[i]));
  device::CudaAddress extents = extents_ + s.first_extent * sizeof(long);
  if (s.extents > 0) args.push_back(&extents);
  const size_t pointers = args.size();
  const int64_t* blocks = request_.bound.blocks.data() + s.first_blocks;
  for (const GpuGrid& grid : static_cast<const GpuKernel*>(s.kernel)->grids) {
    auto count = static_cast<unsigned>(*blocks++);
    if (count == 0) continue;
    args.resize(pointers);
    engine_.maps_.resize(grid.maps());
    for (uint32_t m = 0; m < grid.maps(); ++m) {
      const format::TensorMap& map = *grid.grid->maps()->Get(m);
      if (!make_map(map, slots[map.arg()], engine_.maps_[m])) return false;
      args.push_back(&engine_.maps_[m]);
    }
    if (!ok("launching", driver_.launch(grid.function, count, 1, 1, grid.threads, 1, 1, grid.shared_bytes,
                                        engine_.stream_, args.data(), nullptr)))
      return false;
  }
  return true;
}

bool GpuMachine::copy(const Step& s, void* const* slots) {
  return ok("copying",
            driver_.copy_within(device::address(slots[1]), device::address(slots[0]), static_cast<size_t>(s.units), engine_.stream_));
}

bool GpuMachine::communicate(const Control& c, void* const* slots) {
  GpuExchanges& exchanges = *engine_.exchanges_;
  if (c.kind == Control::Kind::kWait && !exchanges.started(c.ticket)) return ok(engine_.transfers_->wait(c.ticket));
  if (c.kind == Control::Kind::kStart) {
    if (const format::Transfer* t = c.exchange->action_as_Transfer())
      return ok(engine_.transfers_->start(c.ticket, slots, static_cast<size_t>(c.bytes), t->to()->base() == format::BaseKind::Host));
  }
  Status done = c.kind == Control::Kind::kWait ? exchanges.wait(*request_.peers, c.ticket) : exchanges.start(*request_.peers, c, slots);
  by_peers_ = !done.ok() && exchanges.by_peers();
  return ok(std::move(done));
}

bool GpuMachine::read(const void* at, int bytes, int64_t& value) {
  int32_t index = 0;
  if (!ok(engine_.staging_->download(&index, device::address(at), static_cast<size_t>(bytes)))) return false;
  if (!ok(engine_.staging_->finish())) return false;
  value = index;  // a single byte is the low one here and there
  return true;
}

int64_t GpuMachine::begin(uint32_t step, void* const* slots) {
  if (request_.check != nullptr) request_.check->before(request_.bound.operands[step], slots);
  return request_.trace == nullptr ? 0 : event();
}

bool GpuMachine::end(uint32_t step, void* const* slots, int64_t mark) {
  if (request_.trace != nullptr) {
    int64_t now = mark < 0 ? -1 : event();
    if (failure_) return false;
    if (now < 0) request_.trace->drop();
    if (now >= 0) spans_.push_back({request_.bound.labels[step], mark, now});
  }
  if (engine_.sync_debug_ && engine_.peers_ != nullptr && !ok(engine_.peers_->settle())) return false;
  if (engine_.sync_debug_ && !ok("running", driver_.stream_synchronize(engine_.stream_))) return false;
  return request_.check == nullptr || request_.check->after(request_.bound.operands[step], slots);
}

int64_t GpuMachine::event() {
  if (used_ == kMaxEvents) return -1;
  std::vector<device::CudaEvent>& events = engine_.events_;
  if (used_ == static_cast<int64_t>(events.size())) {
    device::CudaEvent made = nullptr;
    if (!ok("making an event", driver_.event_create(&made, 0))) return -1;
    events.push_back(made);
  }
  if (!ok("recording an event", driver_.event_record(events[used_], engine_.stream_))) return -1;
  return used_++;
}

Status GpuMachine::start_trace() {
  if (request_.trace == nullptr) return Ok{};
  if (event() < 0) return *failure_;
  (void)NABLA_TRY(driver_.check("waiting for the GPU", driver_.stream_synchronize(engine_.stream_)));
  start_ = now_ns();
  return Ok{};
}

Status GpuMachine::finish_trace() {
  if (request_.trace == nullptr) return Ok{};
  (void)NABLA_TRY(engine_.staging_->settle());
  auto time = [&](int64_t event, int64_t& out) {
    float milliseconds = 0;
    int status = driver_.event_elapsed(&milliseconds, engine_.events_[0], engine_.events_[event]);
    out = start_ + static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
    return driver_.check("reading an event", status);
  };
  for (const Span& span : spans_) {
    int64_t begin = 0, end = 0;
    (void)NABLA_TRY(time(span.begin, begin));
    (void)NABLA_TRY(time(span.end, end));
    request_.trace->span(span.label, begin, end);
  }
  return Ok{};
}

}  // namespace nabla::exec
