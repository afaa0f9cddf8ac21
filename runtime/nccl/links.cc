#include "runtime/nccl/links.h"

#include <sched.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "runtime/base/system.h"
#include "runtime/comm/one_rank.h"
#include "runtime/comm/recorder.h"

namespace nabla::nccl {
namespace {

constexpr int64_t kCloseUs = 2'000'000;  // for others to close a communicator too

// What members tell each other is text.
std::string to_hex(const UniqueId& id) {
  std::string out;
  for (char c : id.bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}
bool from_hex(const std::string& text, UniqueId& id) {
  if (text.size() != 2 * sizeof id.bytes) return false;
  for (size_t i = 0; i < sizeof id.bytes; ++i) {
    unsigned value = 0;
    const char* at = text.data() + 2 * i;
    if (auto [end, problem] = std::from_chars(at, at + 2, value, 16); problem != std::errc() || end != at + 2) return false;
    id.bytes[i] = static_cast<char>(value);
  }
  return true;
}

// Most waits are short; of the others the CPU is left to whoever wants it.
void pause(int64_t look) {
  if (look < 200)
    ::sched_yield();
  else
    ::usleep(100);
}

}  // namespace

std::string ranks_text(const std::vector<uint32_t>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < 16; ++i) out += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  return ranks.size() > 16 ? out + ", ..." : out;
}

Links::~Links() { abort(); }

Result<Comm> Links::open(const std::string& key, const std::string& name, const std::vector<uint32_t>& members, uint32_t me) {
  auto what = [&] { return fmt::format("rank {} waits for NCCL to connect {} ({})", options_.rank, name, ranks_text(members)); };
  UniqueId id{};
  std::string at = fmt::format("{}/{}", options_.prefix, key);
  if (me == 0) (void)NABLA_TRY(done(nccl_->get_id(&id), nullptr, what));
  if (!from_hex(NABLA_TRY(options_.meet(at, members, me, me == 0 ? to_hex(id) : "")), id))
    return error(Code::kRanksDisagree, "what rank {} says of `{}` is no id of NCCL", members[0], at);
  Config config;
  Comm comm = nullptr;
  int status = nccl_->init(&comm, static_cast<int>(members.size()), id, static_cast<int>(me), &config);
  if (comm != nullptr) comms_.push_back(comm);
  (void)NABLA_TRY(done(status, comm, what));
  return comm;
}

Diagnostic Links::failed(int status, Comm comm, const What& what) const {
  std::string text = nccl_->text(status, comm);
  Code code = status == kRemoteError || status == kSystemError ? Code::kPeerLost
              : status == kUnhandledCudaError                  ? Code::kGpuFailed
                                                               : Code::kTransportFailed;
  bool shared = text.find("Duplicate GPU") != text.npos;
  Diagnostic d = error(shared ? Code::kNoGpu : code, "{}, and NCCL {} says: {}", what(), nccl_->version, text);
  if (shared) d.help = "NCCL wants a GPU for every rank; --engine local runs several ranks on one, --engine mpi too";
  return d;
}

Status Links::done(int status, Comm comm, const What& what) {
  if (status == kOk) return Ok{};
  if (status != kInProgress || comm == nullptr) return failed(status, comm, what);
  int64_t since = comm::steady_us();
  for (int64_t look = 1; status == kInProgress; ++look) {
    pause(look);
    int asked = nccl_->async_error(comm, &status);
    if (asked != kOk) return failed(asked, comm, what);
    if (look % 64 != 0) continue;
    if (options_.verdict)
      if (std::optional<Diagnostic> why = options_.verdict()) return *why;
    (void)NABLA_TRY(in_time(since, 0, what));
  }
  if (status != kOk) return failed(status, comm, what);
  return Ok{};
}

Status Links::in_time(int64_t since_us, uint64_t bytes, const What& what) const {
  double allowed = comm::allowed_s(options_.deadline_s, bytes);
  if (static_cast<double>(comm::steady_us() - since_us) <= allowed * 1e6) return Ok{};
  return error(Code::kTooLate, "{}, and not all have come in {:.1f} s", what(), allowed);
}

Status Links::look(const What& what) {
  if (options_.verdict)
    if (std::optional<Diagnostic> why = options_.verdict()) return *why;
  for (Comm comm : comms_) {
    int state = kOk, asked = nccl_->async_error(comm, &state);
    if (asked != kOk) return failed(asked, comm, what);
    if (state != kOk && state != kInProgress) return failed(state, comm, what);
  }
  return Ok{};
}

// NCCL waits for its kernels to end, which a GPU that has fallen off its bus never says of them. Kernels of one communicator may stand
// before those of another, and graphs end when all of theirs have: so everything is ended at once.
void Links::abort(const std::function<void()>& drop_graphs) {
  if (comms_.empty()) return;
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::thread watch;  // where the system gives none, nobody ends what hangs here but who has started the rank
  (void)start_thread(watch, "watches an abort", [&] {
    std::unique_lock lock(mutex);
    if (changed.wait_for(lock, std::chrono::duration<double>(options_.abort_s), [&] { return over; }) || !options_.end_hard) return;
    options_.end_hard(error(Code::kPeerLost, "rank {}: NCCL has not aborted its communicators in {:g} s", options_.rank, options_.abort_s));
  });
  std::vector<std::thread> ends;
  for (Comm comm : comms_)
    if (!start_thread(ends.emplace_back(), "aborts a communicator", [this, comm] { (void)nccl_->abort(comm); }).ok())
      ends.pop_back(), (void)nccl_->abort(comm);
  if (drop_graphs) drop_graphs();
  for (std::thread& end : ends) end.join();
  comms_.clear();
  {
    std::lock_guard lock(mutex);
    over = true;
  }
  changed.notify_all();
  if (watch.joinable()) watch.join();
}

bool Links::closed(Comm comm, int64_t limit_us) {
  int state = nccl_->finalize(comm);
  for (int64_t look = 1; state == kInProgress; ++look) {
    pause(look);
    if (nccl_->async_error(comm, &state) != kOk || comm::steady_us() > limit_us) return false;
  }
  return state == kOk && nccl_->destroy(comm) == kOk;
}

void Links::close() {
  int64_t limit = comm::steady_us() + kCloseUs;
  while (!comms_.empty() && closed(comms_.back(), limit)) comms_.pop_back();
  abort();
}

}  // namespace nabla::nccl
