// What nabla.distributed calls: processes of a launcher, and collectives between them on host arrays.
#include <dlfcn.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "frontend/python/native/bind.h"
#include "frontend/python/native/bundle.h"
#include "frontend/python/native/processes.h"
#include "frontend/python/native/unlocked.h"
#include "runtime/base/check.h"
#include "runtime/comm/peers.h"
#include "runtime/comm/plain_table.h"
#include "runtime/comm/plugin_transport.h"
#include "runtime/control/wire.h"
#include "runtime/nccl/ranks.h"

namespace nabla::python {
namespace {

volatile std::sig_atomic_t waits = 0, ended = 0;

void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void on_end(int signal) {
  ended = 1;
  if (waits == 0) end_by(signal);
}

// A program that handles SIGTERM itself goes on doing so.
void watch_for_the_end() {
  struct sigaction now {};
  sigaction(SIGTERM, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL) return;
  now.sa_handler = on_end;
  sigaction(SIGTERM, &now, nullptr);
}

/// MPI_Init waits for all processes that the launcher has started, without end: while this lives, not for longer.
class Deadline {
 public:
  explicit Deadline(double seconds) : thread_([this, seconds] { watch(seconds); }) {}
  ~Deadline() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void watch(double seconds) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return over_; })) return;
    auto of_mpirun = [](const char* name) { return std::getenv(name) != nullptr ? std::getenv(name) : "?"; };
    Diagnostic late = error(Code::kTooLate, "rank {} of {} has waited for {:.6g} s for MPI to connect all processes",
                            of_mpirun("OMPI_COMM_WORLD_RANK"), of_mpirun("OMPI_COMM_WORLD_SIZE"), seconds);
    late.help = "see what the others do before they call nabla.distributed.init; init(timeout=...) sets how long it waits";
    std::fputs((to_string(Diagnostics{late}) + "\n").c_str(), stderr);
    ::_exit(1);
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

// They lie near the extension module, which is not beside the executable: that is Python's.
std::string folder_of_plugins() {
  Dl_info info{};
  std::string path = dladdr(reinterpret_cast<void*>(&folder_of_plugins), &info) != 0 ? info.dli_fname : "";
  return path.substr(0, path.rfind('/') + 1) + "plugins/";
}

/// One rank, which no launcher has started.
class Alone final : public comm::Transport {
 public:
  std::string name() const override { return "local"; }
  uint32_t rank() const override { return 0; }
  uint32_t ranks() const override { return 1; }
  Result<Request> send(uint32_t, uint32_t, const void*, uint64_t) override { return nobody(); }
  Result<Request> recv(uint32_t, uint32_t, void*, uint64_t) override { return nobody(); }
  Result<bool> test(Request) override { return nobody(); }
  Status close() override { return Ok{}; }

 private:
  static Diagnostic nobody() { return error(Code::kTransportFailed, "one rank has nobody to exchange messages with"); }
};

// What is left of an exchange that fails so cannot be told from the next one.
bool ends_exchanges(Code code) {
  return code == Code::kRanksDiverge || code == Code::kTransportFailed || code == Code::kTooLate || code == Code::kPeerLost ||
         code == Code::kPayloadCorrupt;
}

/// What rank 0 tells the others: who watches them listens there. No address: it cannot.
struct Meeting {
  char address[256] = "", token[64] = "";
};

constexpr const char* kLateHelp =
    "see what those ranks do instead; nabla.distributed.init(timeout=...) sets how long others wait for them";
constexpr int64_t kLongestCall = 64 << 10;  // bytes of the description of a call

// Shortens the descriptions of two calls. The name of the call stays, then follows the first argument that differs. The arguments
// before it are equal, and "..." replaces them.
std::pair<std::string, std::string> shortened(const std::string& a, const std::string& b) {
  constexpr size_t kShown = 200;
  size_t same = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  size_t name = a.find('('), entry = a.rfind(", ", same);
  bool hidden = name < same && entry != std::string::npos && entry > name + 1 && entry > kShown;
  auto shown = [&](const std::string& text) {
    std::string out = hidden ? text.substr(0, name + 1) + "..." + text.substr(entry) : text;
    size_t most = std::max(kShown, hidden ? same - entry + name + kShown : same + kShown);
    return out.size() > most ? out.substr(0, most) + "..." : out;
  };
  return {shown(a), shown(b)};
}

}  // namespace

uint64_t key_of(std::string_view bytes, uint64_t key) {
  for (char c : bytes) key = (key ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return key;
}

Processes::Waiting::Waiting() : exceptions_(std::uncaught_exceptions()) { waits = waits + 1; }
Processes::Waiting::~Waiting() {
  waits = waits - 1;
  if (ended != 0 && std::uncaught_exceptions() == exceptions_) end_by(SIGTERM);
}

Processes::Processes(const std::string& engine, double timeout_s, double heartbeat_s)
    : engine_(comm::engine_named(engine)), timeout_s_(timeout_s) {
  NABLA_CHECK(engine_, "there is no engine `{}`", engine);
  if (!engine_->processes)
    transport_ = std::make_shared<Alone>();
  else {
    Deadline deadline(timeout_s);
    transport_ = value_or_throw(comm::open_transport("mpi", folder_of_plugins()));
  }
  table_ = comm::plain_table({transport_->ranks()});
  world_ = value_or_throw(over_messages()(*flatbuffers::GetRoot<format::Ranks>(table_.data()), 1));
  if (ranks() > 1) watch_for_the_end();
  if (ranks() > 1 && heartbeat_s > 0) meet(heartbeat_s);
}

// Who watches is a thread of rank 0; where it listens, the others hear by MPI.
void Processes::meet(double heartbeat_s) {
  Literal told(DType::kU8, {sizeof(Meeting)});
  auto& meeting = *static_cast<Meeting*>(told.mutable_data());
  if (rank() == 0) {
    std::string token = control::new_token();
    Result<std::unique_ptr<control::Coordinator>> started = control::Coordinator::start(
        {.address = control::meeting_place(comm::ranks_of_mpirun(0), ranks()),
         .token = token, .ranks = ranks(), .join_s = timeout_s_, .heartbeat_s = heartbeat_s, .lost_s = 5 * heartbeat_s});
    if (started.ok()) {
      coordinator_ = std::move(*started);
      std::snprintf(meeting.address, sizeof meeting.address, "%s", coordinator_->address().c_str());
      std::snprintf(meeting.token, sizeof meeting.token, "%s", token.c_str());
    }
    exchange({.kind = format::CollectiveKind::Broadcast}, told, told);
    check(started.ok() ? Status(Ok{}) : Status(started.errors()));
  } else {
    exchange({.kind = format::CollectiveKind::Broadcast}, told, told);
    const auto& heard = *static_cast<const Meeting*>(told.data());
    if (heard.address[0] == 0) throw Error(error(Code::kCoordinatorLost, "rank 0 cannot listen for the others: it says why"));
  }
  const auto& at = *static_cast<const Meeting*>(told.data());
  member_ = value_or_throw(control::Member::join({.address = at.address, .token = at.token, .rank = rank(), .ranks = ranks(),
                                                  .join_s = timeout_s_, .heartbeat_s = heartbeat_s, .lost_s = 5 * heartbeat_s},
                                                 board_));
}

// Who watches all others is rank 0.
std::optional<Diagnostic> Processes::verdict() const {
  std::optional<Diagnostic> why = member_ ? member_->verdict() : std::nullopt;
  if (why && why->code == Code::kCoordinatorLost)
    return error(Code::kPeerLost, "rank 0 is gone or unresponsive: rank {} hears nothing of it any more", rank());
  return why;
}

int Processes::threads() const {
  int here = static_cast<int>(comm::ranks_of_mpirun(1)), cpus = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cpus / std::max(1, here));
}

uint32_t Processes::gpu() const { return comm::rank_of_mpirun(0); }

std::function<Result<std::unique_ptr<comm::World>>(const format::Ranks&, uint32_t)> Processes::world() const {
  if (engine_->kind != comm::Engine::Kind::kNccl) return over_messages();
  return nccl::over_nccl({.rank = rank(),
                          .ranks = ranks(),
                          .local_ranks = comm::ranks_of_mpirun(1),
                          .deadline_s = timeout_s_,
                          .verdict = [this]() -> std::optional<Diagnostic> {
                            if (ended == 0) return verdict();
                            return error(Code::kPeerLost, "rank {} is told to end (SIGTERM), as launchers do when another rank has ended",
                                         rank());
                          },
                          .meet = nccl::by_messages(transport_, timeout_s_)});
}

std::function<Result<std::unique_ptr<comm::World>>(const format::Ranks&, uint32_t)> Processes::over_messages() const {
  return comm::peers_over(
      transport_, {.deadline_s = timeout_s_, .late_help = kLateHelp, .verdict = [this] { return verdict(); }, .ended = &ended});
}

void Processes::carry_out(comm::CollectiveCall call, const Literal& from, Literal& to) {
  call.dtype = static_cast<format::DType>(from.dtype());
  call.to = to.mutable_data(), call.from = from.data(), call.bytes = static_cast<uint64_t>(from.size_bytes());
  comm::Communicator& peers = world_->rank(rank());
  check(peers.start(0, call));
  check(peers.wait(0));
}

void Processes::exchange(const comm::CollectiveCall& call, const Literal& from, Literal& to) {
  if (from.size_bytes() > 0) with_others([&] { carry_out(call, from, to); });
}

void Processes::share(std::vector<Literal>& values) {
  for (Literal& v : values) exchange({.kind = format::CollectiveKind::Broadcast}, v, v);
}

// Numbers are compared, and where they differ, texts.
void Processes::agree(const Call& call) {
  if (ranks() == 1) return;
  board_.run.fetch_add(1);
  Literal key(DType::kU64, {1}), keys(DType::kU64, {ranks()});
  key.set_i(0, static_cast<int64_t>(call.key));
  auto gather = [&](const Literal& from, Literal& to) { carry_out({.kind = format::CollectiveKind::AllGather}, from, to); };
  try {
    gather(key, keys);
  } catch (const Error& e) {
    Diagnostic why = e.diagnostics()[0];
    why.notes.push_back(fmt::format("rank {} calls {}", rank(), call.says()));
    throw Error(why);
  }
  uint32_t other = 0;
  while (other < ranks() && keys.get_i(other) == keys.get_i(0)) ++other;
  if (other == ranks()) return;
  std::string says = call.says().substr(0, kLongestCall);
  Literal size(DType::kU64, {1}), sizes(DType::kU64, {ranks()});
  size.set_i(0, static_cast<int64_t>(says.size()));
  gather(size, sizes);
  int64_t longest = 1;
  for (uint32_t r = 0; r < ranks(); ++r) longest = std::max(longest, sizes.get_i(r));
  Literal text(DType::kU8, {longest}), texts(DType::kU8, {ranks() * longest});
  std::memcpy(text.mutable_data(), says.data(), says.size());
  gather(text, texts);
  auto of = [&](uint32_t r) {
    return std::string(static_cast<const char*>(texts.data()) + r * longest, static_cast<size_t>(sizes.get_i(r)));
  };
  auto [first, second] = shortened(of(0), of(other));
  Diagnostic why = error(Code::kRanksDisagree, "rank 0 calls {}, and rank {} {}", first, other, second);
  why.help = "all ranks make the same calls in the same order, with arrays of the same shapes and dtypes";
  throw Error(why);
}

Diagnostics Processes::kept(Diagnostics all) {
  Diagnostic& why = all[0];
  if (why.help.empty() && why.code == Code::kPeerLost) why.help = "see what that rank said last, and how it ended";
  if (ends_exchanges(why.code)) failure_ = why;
  return all;
}

void Processes::give_up(const std::string& why) {
  if (member_ && !failure_) (void)member_->report(error(Code::kPeerLost, "rank {} has ended by an exception: {}", rank(), why));
}

void Processes::close() {
  with_others({key_of("finalize"), [] { return std::string("finalize()"); }}, [] {});
  if (member_) member_->leave();
  if (std::optional<Diagnostic> why = verdict()) throw Error(*why);
  check(transport_->close());
  member_.reset();
}

namespace {

Value collective(Processes& all, int kind, int reduction, const Value& from, std::vector<int64_t> shape, uint32_t root) {
  const Literal& array = from.array("a collective of nabla.distributed");
  Literal out = Literal::uninitialized(array.dtype(), std::move(shape));
  without_lock([&] {
    all.exchange({.kind = static_cast<format::CollectiveKind>(kind), .reduction = static_cast<format::Reduction>(reduction), .root = root},
                 array, out);
  });
  return Value(std::move(out));
}

}  // namespace

void bind_distributed(py::module_& m) {
  m.def("engines", [] {
    py::dict out;
    for (const comm::Engine& e : comm::engines()) out[e.name] = e.processes;
    return out;
  }, "By the name of every engine: whether each of its ranks is a process.");
  py::class_<Processes, std::shared_ptr<Processes>>(m, "Processes", "The processes that a launcher started, of which this is one.")
      .def(py::init([](const std::string& engine, double timeout, double heartbeat) {
             return without_lock([&] { return std::make_shared<Processes>(engine, timeout, heartbeat); });
           }),
           py::arg("engine"), py::arg("timeout"), py::arg("heartbeat"))
      .def_property_readonly("engine", &Processes::engine)
      .def_property_readonly("rank", &Processes::rank)
      .def_property_readonly("ranks", &Processes::ranks)
      .def_property_readonly("failed", &Processes::failed)
      .def(
          "agree",
          [](Processes& all, const std::string& call) {
            without_lock([&] { all.with_others({key_of(call), [&] { return call; }}, [] {}); });
          },
          py::arg("call"))
      .def("collective", &collective, py::arg("kind"), py::arg("reduction"), py::arg("value"), py::arg("shape"), py::arg("root"))
      .def("give_up", [](Processes& all, const std::string& why) { without_lock([&] { all.give_up(why); }); }, py::arg("why"))
      // Nothing of it is ended where a process was forked: its threads and connections are the parent's.
      .def("leave_to_parent", [](std::shared_ptr<Processes> all) { new std::shared_ptr<Processes>(std::move(all)); })
      .def("close", [](Processes& all) { without_lock([&] { all.close(); }); });
}

}  // namespace nabla::python
