#include "runtime/nccl/ranks.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>

#include "runtime/comm/neighbours.h"
#include "runtime/comm/one_rank.h"
#include "runtime/comm/recorder.h"
#include "runtime/comm/traffic.h"
#include "runtime/format/collective.h"
#include "runtime/format/program_check.h"
#include "runtime/format/rank_digits.h"
#include "runtime/nccl/links.h"

namespace nabla::nccl {
namespace {

using comm::CollectiveCall;
using device::CudaAddress;
using device::CudaEvent;
using device::CudaStream;
using format::CollectiveKind;
using format::Reduction;

constexpr unsigned kNonBlocking = 1, kNoTiming = 2;  // CU_STREAM_NON_BLOCKING, CU_EVENT_DISABLE_TIMING
constexpr uint64_t kPassed = 4 << 20;                // bytes at a time that go from the host to another's

CudaAddress address(const void* at) { return reinterpret_cast<CudaAddress>(at); }

/// ncclDataType_t; -1: NCCL does not calculate with it.
int type_of(format::DType dtype) {
  switch (dtype) {
    case format::DType::Bool: case format::DType::U8: return kUint8;
    case format::DType::I8: return kInt8;
    case format::DType::I32: return kInt32;
    case format::DType::I64: return kInt64;
    case format::DType::U32: return kUint32;
    case format::DType::U64: return kUint64;
    case format::DType::F16: return kFloat16;
    case format::DType::BF16: return kBfloat16;
    case format::DType::F32: return kFloat32;
    case format::DType::F64: return kFloat64;
    default: return -1;
  }
}
/// ncclRedOp_t. Of bools, which are 0 or 1, the least is whether all are.
int op_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::Prod: return kProd;
    case Reduction::Max: case Reduction::Or: return kMax;
    case Reduction::Min: case Reduction::And: return kMin;
    default: return kSum;
  }
}

/// What was started and is not over, or not awaited.
struct Exchange {
  uint32_t ticket = 0;
  uint64_t number = 0, bytes = 0;
  const char* op = "";
  const std::string* with = nullptr;  ///< "group dp (ranks 0, 1)"
  CudaStream stream = nullptr;
  CudaEvent ready = nullptr, done = nullptr;
  volatile char* marks = nullptr;  ///< of a graph, which sets one where the exchange begins and the other after it; null: events tell
  bool sends = false;
  bool asked = false;     ///< its `wait` was called
  bool held = false;      ///< the rank's stream waits for it
  bool over = false;
  int64_t since = 0;      ///< when it was first seen under way; 0: it was not
};

/// Marks of what a graph exchanges, two for each, which it sets itself: the events of a graph cannot be asked for.
class Graph final : public comm::StreamGraph {
 public:
  Graph(std::shared_ptr<const device::CudaDriver> driver, char* marks, size_t most)
      : driver_(std::move(driver)), marks_(marks), most_(most) {
    std::memset(marks_, 0, 2 * most_);
  }
  ~Graph() override { (void)driver_->host_free(marks_); }

  /// Another launch: takes back the marks of the one before.
  void begin() { std::memset(marks_, 0, 2 * next_), next_ = 0; }
  /// Those of the next exchange.
  char* next() {
    NABLA_CHECK(next_ < most_, "a graph exchanges more than {} times", most_);
    return marks_ + 2 * next_++;
  }
  bool used() const { return next_ > 0; }

 private:
  std::shared_ptr<const device::CudaDriver> driver_;
  char* marks_;
  size_t most_, next_ = 0;
};

struct Group {
  Comm comm = nullptr;  ///< null: the rank is alone in it
  std::vector<uint32_t> members;
  uint32_t me = 0;
  std::string text;
};

struct Channel {
  struct Slot {
    CudaAddress at = 0;
    uint64_t bytes = 0;
    uint64_t number = 0;  ///< of the exchange that reads it
  };
  Comm comm = nullptr;
  CudaStream stream = nullptr;
  bool sends = false;
  std::string text;
  std::vector<Slot> slots;
  size_t next = 0;
};

}  // namespace

// If an operand of such a reduction is NaN, NCCL takes the other one. Compilers exchange integers instead.
static bool drops_nan(Reduction reduction, format::DType dtype) {
  return (reduction == Reduction::Max || reduction == Reduction::Min) && is_float(static_cast<DType>(dtype));
}
bool combines(Reduction reduction, format::DType dtype) {
  bool logical = reduction == Reduction::And || reduction == Reduction::Or;
  return !drops_nan(reduction, dtype) && type_of(dtype) >= 0 && (!logical || dtype == format::DType::Bool);
}

namespace {

class Rank final : public comm::StreamCommunicator {
 public:
  Rank(const format::Ranks& table, std::shared_ptr<const Library> library, const RankOptions& options)
      : table_(table),
        options_(options),
        links_(std::move(library), options_),
        nccl_(links_.nccl()),
        neighbours_(comm::neighbours_of(table, options.rank)) {}
  ~Rank() override { detach(); }

  uint32_t number() const { return options_.rank; }
  const std::optional<Diagnostic>& failure() const { return failure_; }
  uint32_t members(uint32_t group) const override { return static_cast<uint32_t>(neighbours_.groups[group].members.size()); }

  Status attach(const device::CudaDevice& device, CudaStream stream, const format::Program* program) override {
    if (program != nullptr) (void)NABLA_TRY(kept(check(*program)));
    (void)NABLA_TRY(kept(check(device)));
    driver_ = device.driver, device_ = device.device, compute_ = stream;
    (void)NABLA_TRY(kept(ok("opening the GPU", driver_->context_retain(&context_, device_))));
    return kept(connect());
  }

  void detach() override {
    if (context_ == nullptr) return;
    (void)driver_->context_set(context_);
    failure_ ? abort() : drop_graphs();
    drop_graphs_by(nullptr);
    links_.close();
    for (CudaStream stream : streams_) (void)driver_->stream_destroy(stream);
    for (CudaEvent event : events_) (void)driver_->event_destroy(event);
    for (CudaAddress at : memory_) (void)driver_->memory_free(at);
    streams_.clear(), events_.clear(), unused_.clear(), memory_.clear(), open_.clear();
    (void)driver_->context_release(device_);
    context_ = nullptr;
  }

  void abort() override { links_.abort([this] { drop_graphs(); }); }

  Status start(uint32_t ticket, const CollectiveCall& call) override {
    const Group& group = groups_[call.group];
    Exchange& e = fresh(ticket, format::def_of(call.kind).name, call.bytes, group.text, collectives_);
    if (replays_ != nullptr) return e.marks = replays_->next(), Ok{};
    return kept(begun(e, [&] { return issue(call, group, e); }));
  }

  Status send(uint32_t ticket, uint32_t channel, const void* from, uint64_t bytes, const format::Instruction*) override {
    Channel& c = channels_[channel];
    Exchange& e = fresh(ticket, "send", bytes, c.text, c.stream);
    e.sends = true;
    if (bytes == 0) return kept(begun(e, [] { return Status(Ok{}); }));
    CudaAddress room = NABLA_TRY(kept(room_for(c, bytes, e.number)));
    (void)NABLA_TRY(kept(ok("copying a message", driver_->copy_within(room, address(from), bytes, compute_))));
    return kept(begun(e, [&] {
      return issued(nccl_.send(reinterpret_cast<const void*>(room), bytes, kUint8, 1, c.comm, c.stream), c.comm, e);
    }));
  }
  Status recv(uint32_t ticket, uint32_t channel, void* to, uint64_t bytes, const format::Instruction*) override {
    Channel& c = channels_[channel];
    Exchange& e = fresh(ticket, "recv", bytes, c.text, c.stream);
    if (bytes == 0) return kept(begun(e, [] { return Status(Ok{}); }));
    return kept(begun(e, [&] { return issued(nccl_.recv(to, bytes, kUint8, 0, c.comm, c.stream), c.comm, e); }));
  }

  // A message leaves from the channel's own memory: nothing of the rank waits for it.
  Status wait(uint32_t ticket) override {
    if (failure_) return *failure_;
    auto found = std::find_if(open_.begin(), open_.end(), [&](const Exchange& e) { return !e.asked && e.ticket == ticket; });
    NABLA_CHECK(found != open_.end(), "rank {} waits for {}, which it has not started", options_.rank, ticket);
    found->asked = true;
    if (replays_ != nullptr) return found->held = true, Ok{};
    return found->sends || found->over ? Status(Ok{}) : kept(hold(*found));
  }

  Result<std::shared_ptr<comm::StreamGraph>> record(size_t most) override {
    if (failure_) return *failure_;
    if (one_ == 0) {
      (void)NABLA_TRY(kept(allocate(1, one_)));
      (void)NABLA_TRY(kept(ok("filling memory", driver_->fill(one_, 1, 1, collectives_))));
    }
    void* marks = nullptr;
    int status = driver_->host_alloc(&marks, 2 * most, 0);
    if (status == device::kCudaOutOfMemory)
      return kept(Status(error(Code::kOutOfMemory, "a graph needs {} bytes of pinned memory of the host", 2 * most))).errors();
    (void)NABLA_TRY(kept(ok("allocating pinned memory", status)));
    auto graph = std::make_shared<Graph>(driver_, static_cast<char*>(marks), most);
    records_ = graph.get();
    return std::shared_ptr<comm::StreamGraph>(std::move(graph));
  }
  Status recorded() override {
    bool exchanged = records_ != nullptr && records_->used();
    records_ = nullptr;
    if (failure_) return *failure_;
    if (!exchanged) return Ok{};
    CudaEvent end = NABLA_TRY(kept(new_event()));
    Status joined = ok("recording an event", driver_->event_record(end, collectives_));
    if (joined.ok()) joined = ok("waiting for an event", driver_->stream_wait(compute_, end, 0));
    unused_.push_back(end);
    return kept(std::move(joined));
  }
  void replay(comm::StreamGraph& graph) override { replays_ = static_cast<Graph*>(&graph), replays_->begin(); }
  void replayed() override { replays_ = nullptr; }

  Status settle() override {
    for (int64_t look = 1; context_ != nullptr; ++look) {
      if (failure_) return *failure_;
      (void)NABLA_TRY(kept(progress()));
      int status = driver_->stream_query(compute_);
      if (status == device::kCudaOk) return kept(progress());
      if (status != device::kCudaNotReady) return kept(Status(driver_->failure("waiting for the GPU", status)));
      if (look % 16 == 0) (void)NABLA_TRY(kept(links_.look([&] { return what(); })));
      pause(look);
    }
    return Ok{};
  }

  Status pass(uint32_t from, uint32_t to, void* data, uint64_t bytes) {
    uint32_t me = options_.rank;
    if (from == to || (me != from && me != to)) return Ok{};
    if (failure_) return *failure_;
    (void)NABLA_TRY(kept(ok("choosing the GPU", driver_->context_set(context_))));
    if (passing_ == 0) (void)NABLA_TRY(kept(allocate(kPassed, passing_)));
    for (uint64_t at = 0; at < bytes; at += kPassed) {
      uint64_t part = std::min(bytes - at, kPassed);
      (void)NABLA_TRY(kept(passed(me == from, me == from ? to : from, static_cast<char*>(data) + at, part)));
    }
    return Ok{};
  }

  void end(const Status& status) {
    if (status.ok()) return;
    if (!failure_) failure_ = status.errors()[0];
    if (context_ != nullptr) (void)driver_->context_set(context_);
    abort();
  }

 private:
  // ---- Before the first exchange

  // What NCCL cannot add up.
  Status check(const format::Program& program) const {
    for (const format::Instructions* list : format::instructions_of(program))
      for (const format::Instruction* at : *list) {
        const format::Collective* call = at->action_as_Collective();
        if (call == nullptr || !format::def_of(call->kind()).combines || combines(call->reduction(), call->dtype())) continue;
        Diagnostic d = error(Code::kBadOption, "NCCL has no {} of {} by {}, which `{}` asks for", format::def_of(call->kind()).name,
                             name_of(static_cast<DType>(call->dtype())), format::EnumNameReduction(call->reduction()),
                             format::view(at->label()));
        d.help = drops_nan(call->reduction(), call->dtype()) ? "compile the program again" : "run it with --engine mpi";
        return d;
      }
    return Ok{};
  }

  // With a part of the GPUs made visible for every rank nobody knows which are whose; NCCL itself finds those that are shared.
  Status check(const device::CudaDevice& device) const {
    const char* chosen = std::getenv("CUDA_VISIBLE_DEVICES");
    if (static_cast<uint32_t>(device.count) >= options_.local_ranks || (chosen != nullptr && *chosen != 0)) return Ok{};
    Diagnostic d = error(Code::kNoGpu, "{} ranks run on this machine, which has {} GPU{}: NCCL wants one for every rank",
                         options_.local_ranks, device.count, device.count == 1 ? "" : "s");
    d.help = "--engine local runs several ranks on one GPU, and --engine mpi exchanges through the host's memory";
    return d;
  }

  // In one order on all ranks: groups by their place in the table, then channels by who receives.
  Status connect() {
    collectives_ = NABLA_TRY(new_stream());
    groups_.resize(neighbours_.groups.size());
    std::vector<uint32_t> all;
    for (uint32_t r = 0; r < options_.ranks; ++r) all.push_back(r);
    std::map<uint32_t, std::vector<size_t>> by_index;
    for (size_t g = 0; g < groups_.size(); ++g) by_index[neighbours_.groups[g].index].push_back(g);
    for (const auto& [index, same] : by_index) {
      const comm::Neighbours::Group& of = neighbours_.groups[same[0]];
      Group group{nullptr, of.members, of.me, fmt::format("group {} ({})", of.name, ranks_text(of.members))};
      if (of.members.size() > 1) {
        std::string key = fmt::format("group/{}/{}", index, *std::min_element(of.members.begin(), of.members.end()));
        group.comm = NABLA_TRY(links_.open(key, fmt::format("group {}", of.name), of.members, of.me));
      }
      for (size_t g : same) groups_[g] = group;
    }
    if (options_.ranks > 1) world_ = NABLA_TRY(links_.open("all", "all ranks", all, options_.rank));
    return connect_channels();
  }

  Status connect_channels() {
    const format::Class& of = *table_.classes()->Get(format::classes_of(table_)[options_.rank]);
    channels_.resize(neighbours_.channels.size());
    std::map<std::pair<uint32_t, uint32_t>, size_t> in_order;  // by receiver and what it calls the channel
    for (size_t c = 0; c < channels_.size(); ++c) {
      const comm::Neighbours::Channel& known = neighbours_.channels[c];
      if (known.peer < options_.ranks) in_order[{known.sends ? known.peer : options_.rank, known.number}] = c;
    }
    for (const auto& [whose, index] : in_order) {
      const comm::Neighbours::Channel& known = neighbours_.channels[index];
      Channel& c = channels_[index];
      c.sends = known.sends;
      c.text = fmt::format("channel {} ({} rank {})", index, known.sends ? "to" : "from", known.peer);
      c.stream = NABLA_TRY(new_stream());
      std::vector<uint32_t> ends = known.sends ? std::vector{options_.rank, known.peer} : std::vector{known.peer, options_.rank};
      c.comm = NABLA_TRY(links_.open(fmt::format("channel/{}/{}", whose.first, whose.second), c.text, ends, known.sends ? 0 : 1));
      if (!known.sends) continue;
      c.slots.resize(std::max(1u, options_.in_flight));
      uint64_t bytes = of.channels()->Get(static_cast<uint32_t>(index))->bytes();
      for (Channel::Slot& slot : c.slots)
        if (bytes > 0) (void)NABLA_TRY(allocate(slot.bytes = bytes, slot.at));
    }
    return Ok{};
  }

  Result<CudaStream> new_stream() {
    CudaStream out = nullptr;
    (void)NABLA_TRY(ok("making a stream", driver_->stream_create(&out, kNonBlocking)));
    streams_.push_back(out);
    return out;
  }
  Result<CudaEvent> new_event() {
    CudaEvent out = nullptr;
    if (!unused_.empty()) return out = unused_.back(), unused_.pop_back(), out;
    (void)NABLA_TRY(ok("making an event", driver_->event_create(&out, kNoTiming)));
    events_.push_back(out);
    return out;
  }
  // Given back when the rank detaches: freeing waits for the whole GPU.
  Status allocate(uint64_t bytes, CudaAddress& out) {
    int status = driver_->memory_alloc(&out, bytes);
    if (status == device::kCudaOutOfMemory)
      return error(Code::kOutOfMemory, "messages of {} bytes to other ranks need as much memory of the GPU, which has none left", bytes);
    (void)NABLA_TRY(ok("allocating memory for messages", status));
    memory_.push_back(out);
    return Ok{};
  }

  // ---- Exchanges

  Exchange& fresh(uint32_t ticket, const char* op, uint64_t bytes, const std::string& with, CudaStream stream) {
    Exchange e;
    e.ticket = ticket, e.number = ++started_, e.op = op, e.bytes = bytes, e.with = &with, e.stream = stream;
    return open_.emplace_back(std::move(e));
  }

  // Behind what the rank's stream has by now, between two events.
  template <class F>
  Status begun(Exchange& e, const F& issue) {
    if (failure_) return *failure_;
    e.ready = NABLA_TRY(new_event()), e.done = NABLA_TRY(new_event());
    (void)NABLA_TRY(ok("recording an event", driver_->event_record(e.ready, compute_)));
    (void)NABLA_TRY(ok("waiting for an event", driver_->stream_wait(e.stream, e.ready, 0)));
    if (records_ != nullptr) e.marks = records_->next();
    if (e.marks != nullptr) (void)NABLA_TRY(marked(e, 0));
    (void)NABLA_TRY(issue());
    (void)NABLA_TRY(ok("recording an event", driver_->event_record(e.done, e.stream)));
    return e.marks != nullptr ? marked(e, 1) : Ok{};
  }
  Status marked(const Exchange& e, int which) {
    return ok("marking an exchange", driver_->copy_out(const_cast<char*>(e.marks) + which, one_, 1, e.stream));
  }

  Status hold(Exchange& e) {
    e.held = true;
    return ok("waiting for an event", driver_->stream_wait(compute_, e.done, 0));
  }

  // What NCCL has taken is in the stream when this returns.
  Status issued(int status, Comm comm, const Exchange& e) {
    return links_.done(status, comm, [&] { return at(e); });
  }

  Status issue(const CollectiveCall& c, const Group& group, const Exchange& e) {
    if (c.bytes == 0) return Ok{};
    uint64_t n = group.members.size(), count = c.bytes / format::element_bytes(c.dtype);
    if (format::def_of(c.kind).combines && !combines(c.reduction, c.dtype))
      return error(Code::kBadOption, "NCCL has no {} of {} by {}", e.op, name_of(static_cast<DType>(c.dtype)),
                   format::EnumNameReduction(c.reduction));
    if (n == 1) return alone(c);
    int type = type_of(c.dtype), op = op_of(c.reduction);
    switch (c.kind) {
      case CollectiveKind::AllReduce:
        return issued(nccl_.all_reduce(c.from, c.to, count, type, op, group.comm, e.stream), group.comm, e);
      case CollectiveKind::ReduceScatter:
        return issued(nccl_.reduce_scatter(c.from, c.to, count / n, type, op, group.comm, e.stream), group.comm, e);
      case CollectiveKind::AllGather:
        return issued(nccl_.all_gather(c.from, c.to, c.bytes, kUint8, group.comm, e.stream), group.comm, e);
      case CollectiveKind::Broadcast:
        return issued(nccl_.broadcast(c.from, c.to, c.bytes, kUint8, static_cast<int>(c.root), group.comm, e.stream), group.comm, e);
      default: return messages(c, group, e);
    }
  }

  Status alone(const CollectiveCall& c) {
    if (c.kind == CollectiveKind::Permute && c.targets[0] != 0)
      return ok("filling memory", driver_->fill(address(c.to), 0, c.bytes, collectives_));
    return copied(c.to, c.from, c.bytes);
  }
  Status copied(void* to, const void* from, uint64_t bytes) {
    if (to == from) return Ok{};
    return ok("copying", driver_->copy_within(address(to), address(from), bytes, collectives_));
  }

  // All at once: none of them waits for another.
  Status messages(const CollectiveCall& c, const Group& group, const Exchange& e) {
    auto* from = static_cast<const char*>(c.from);
    auto* to = static_cast<char*>(c.to);
    bool permutes = c.kind == CollectiveKind::Permute, comes = !permutes, group_open = false;
    uint64_t part = permutes ? c.bytes : c.bytes / group.members.size();
    auto call = [&](int status) -> Status { return status == kInProgress ? Status(Ok{}) : issued(status, group.comm, e); };
    auto opened = [&]() -> Status {
      if (std::exchange(group_open, true)) return Ok{};
      return call(nccl_.group_start());
    };
    for (uint32_t m = 0; m < group.members.size(); ++m) {
      bool sends = !permutes || c.targets[group.me] == static_cast<int32_t>(m);
      bool receives = !permutes || c.targets[m] == static_cast<int32_t>(group.me);
      comes = comes || receives;
      const char* mine = permutes ? from : from + m * part;
      char* theirs = permutes ? to : to + m * part;
      if (m == group.me) {
        if (sends) (void)NABLA_TRY(copied(theirs, mine, part));
        continue;
      }
      if (sends || receives) (void)NABLA_TRY(opened());
      if (sends) (void)NABLA_TRY(call(nccl_.send(mine, part, kUint8, static_cast<int>(m), group.comm, e.stream)));
      if (receives) (void)NABLA_TRY(call(nccl_.recv(theirs, part, kUint8, static_cast<int>(m), group.comm, e.stream)));
    }
    if (!comes) (void)NABLA_TRY(ok("filling memory", driver_->fill(address(to), 0, c.bytes, e.stream)));
    return group_open ? issued(nccl_.group_end(), group.comm, e) : Status(Ok{});
  }

  // Where a message leaves from: the memory of one that has left, or will have when the rank's stream comes there.
  Result<CudaAddress> room_for(Channel& c, uint64_t bytes, uint64_t number) {
    Channel::Slot& slot = c.slots[c.next++ % c.slots.size()];
    auto before = std::find_if(open_.begin(), open_.end(), [&](const Exchange& e) { return e.number == slot.number; });
    if (before != open_.end() && !before->over && slot.number > 0) (void)NABLA_TRY(hold(*before));
    if (slot.bytes < bytes) (void)NABLA_TRY(allocate(slot.bytes = bytes, slot.at));
    slot.number = number;
    return slot.at;
  }

  Status passed(bool sends, uint32_t peer, char* data, uint64_t bytes) {
    auto text = [&] { return fmt::format("rank {} waits with {} bytes {} rank {}", options_.rank, bytes, sends ? "for" : "of", peer); };
    auto* room = reinterpret_cast<void*>(passing_);
    int other = static_cast<int>(peer);
    if (sends) (void)NABLA_TRY(ok("copying to the GPU", driver_->copy_in(passing_, data, bytes, collectives_)));
    int status = sends ? nccl_.send(room, bytes, kUint8, other, world_, collectives_)
                       : nccl_.recv(room, bytes, kUint8, other, world_, collectives_);
    (void)NABLA_TRY(links_.done(status, world_, text));
    int64_t since = comm::steady_us();
    for (int64_t look = 1; (status = driver_->stream_query(collectives_)) == device::kCudaNotReady; ++look) {
      if (look % 16 == 0) (void)NABLA_TRY(links_.look(text));
      (void)NABLA_TRY(links_.in_time(since, bytes, text));
      pause(look);
    }
    (void)NABLA_TRY(ok("waiting for the GPU", status));
    if (sends) return Ok{};
    (void)NABLA_TRY(ok("copying from the GPU", driver_->copy_out(data, passing_, bytes, collectives_)));
    return ok("waiting for the GPU", driver_->stream_synchronize(collectives_));
  }

  // ---- How far the GPU is

  Result<bool> happened(CudaEvent event) {
    int status = driver_->event_query(event);
    if (status == device::kCudaNotReady) return false;
    (void)NABLA_TRY(ok("asking for an event", status));
    return true;
  }

  // Its beginning (0) or its end (1).
  Result<bool> reached(const Exchange& e, int which) {
    if (e.marks != nullptr) return e.marks[which] != 0;
    return happened(which == 0 ? e.ready : e.done);
  }

  // Those of one stream end in their order.
  Status progress() {
    waits_ = nullptr;
    std::erase_if(open_, [&](const Exchange& e) {
      if (!e.over || !e.asked) return false;
      if (e.ready != nullptr) unused_.push_back(e.ready), unused_.push_back(e.done);
      return true;
    });
    busy_.clear();
    for (Exchange& e : open_) {
      if (e.over || std::find(busy_.begin(), busy_.end(), e.stream) != busy_.end()) continue;
      if (NABLA_TRY(reached(e, 1))) {
        e.over = true;
        if (watcher_ != nullptr) watcher_->over(e.number);
        continue;
      }
      busy_.push_back(e.stream);
      if (!e.held || waits_ != nullptr) continue;
      if (e.since == 0 && !NABLA_TRY(reached(e, 0))) continue;
      if (e.since == 0) {
        e.since = comm::steady_us();
        if (watcher_ != nullptr) watcher_->under_way(e.number);
      }
      waits_ = &e;
    }
    return waits_ == nullptr ? Status(Ok{}) : links_.in_time(waits_->since, waits_->bytes, [&] { return what(); });
  }

  std::string at(const Exchange& e) const {
    return fmt::format("rank {} waits in {} of {} bytes of {}", options_.rank, e.op, e.bytes, *e.with);
  }
  std::string what() const { return waits_ == nullptr ? fmt::format("rank {} waits for its GPU", options_.rank) : at(*waits_); }

  Status ok(std::string_view what, int status) const { return driver_->check(what, status); }

  // The first failure is that of all that follows, and ends what is under way.
  template <class T>
  Result<T> kept(Result<T> result) {
    if (failure_) return *failure_;
    if (result.ok()) return result;
    failure_ = result.errors()[0];
    abort();
    return result;
  }

  static void pause(int64_t look) {
    if (look < 2000)
      ::sched_yield();
    else
      ::usleep(50);
  }

  const format::Ranks& table_;
  const RankOptions options_;
  Links links_;
  const Library& nccl_;
  const comm::Neighbours neighbours_;
  std::shared_ptr<const device::CudaDriver> driver_;
  int device_ = 0;
  device::CudaContext context_ = nullptr;  // null: nothing is attached
  CudaStream compute_ = nullptr, collectives_ = nullptr;
  std::vector<CudaStream> streams_, busy_;
  std::vector<CudaEvent> events_, unused_;
  std::vector<CudaAddress> memory_;
  CudaAddress passing_ = 0, one_ = 0;  // one_: a byte that is 1
  Graph *records_ = nullptr, *replays_ = nullptr;  // that is recorded, or launched again
  std::vector<Group> groups_;
  std::vector<Channel> channels_;
  Comm world_ = nullptr;
  std::deque<Exchange> open_;  // in the order of their starts
  uint64_t started_ = 0;
  const Exchange* waits_ = nullptr;  // what the rank's stream waits for
  std::optional<Diagnostic> failure_;
};

}  // namespace

Result<std::unique_ptr<comm::World>> make_ranks(const format::Ranks& table, const RankOptions& options) {
  if (options.ranks != table.count())
    return error(Code::kRanksDisagree, "the bundle is for {} ranks, and {} were started", table.count(), options.ranks);
  auto library = NABLA_TRY(Library::open());
  return std::unique_ptr<comm::World>(new comm::OneRank(std::make_unique<Rank>(table, std::move(library), options)));
}

std::function<Result<std::unique_ptr<comm::World>>(const format::Ranks&, uint32_t in_flight)> over_nccl(RankOptions options) {
  return [=](const format::Ranks& table, uint32_t in_flight) mutable -> Result<std::unique_ptr<comm::World>> {
    options.in_flight = in_flight;
    return make_ranks(table, options);
  };
}

}  // namespace nabla::nccl
