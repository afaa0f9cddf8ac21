// What nabla.distributed calls: processes of a launcher, and collectives between them on host arrays.
#include <dlfcn.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <thread>

#include "frontend/python/native/bind.h"
#include "frontend/python/native/bundle.h"
#include "frontend/python/native/processes.h"
#include "frontend/python/native/unlocked.h"
#include "runtime/comm/peers.h"
#include "runtime/comm/plain_table.h"
#include "runtime/comm/plugin_transport.h"

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

}  // namespace

Processes::Waiting::Waiting() : exceptions_(std::uncaught_exceptions()) { waits = waits + 1; }
Processes::Waiting::~Waiting() {
  waits = waits - 1;
  if (ended != 0 && std::uncaught_exceptions() == exceptions_) end_by(SIGTERM);
}

Processes::Processes(const std::string& engine, double timeout_s) : timeout_s_(timeout_s) {
  if (engine == "local")
    transport_ = std::make_shared<Alone>();
  else
    transport_ = value_or_throw(comm::open_transport(engine, folder_of_plugins()));
  table_ = comm::plain_table({transport_->ranks()});
  world_ = value_or_throw(world()(*flatbuffers::GetRoot<format::Ranks>(table_.data()), 1));
  if (ranks() > 1) watch_for_the_end();
}

int Processes::threads() const {
  const char* local = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  int here = local == nullptr ? 1 : std::atoi(local), cpus = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cpus / std::max(1, here));
}

std::function<Result<std::unique_ptr<comm::World>>(const format::Ranks&, uint32_t)> Processes::world() const {
  return comm::peers_over(transport_, {.deadline_s = timeout_s_, .ended = &ended});
}

void Processes::exchange(comm::CollectiveCall call, const Literal& from, Literal& to) {
  if (from.size_bytes() == 0) return;
  call.dtype = static_cast<format::DType>(from.dtype());
  call.to = to.mutable_data(), call.from = from.data(), call.bytes = static_cast<uint64_t>(from.size_bytes());
  with_others([&] {
    comm::Communicator& peers = world_->rank(rank());
    check(peers.start(0, call));
    check(peers.wait(0));
  });
}

void Processes::share(std::vector<Literal>& values) {
  for (Literal& v : values) exchange({.kind = format::CollectiveKind::Broadcast}, v, v);
}

void Processes::keep(const Error& e) {
  const Diagnostic& why = e.diagnostics()[0];
  if (ends_exchanges(why.code)) failure_ = why;
}

void Processes::close() { check(transport_->close()); }

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
  py::class_<Processes, std::shared_ptr<Processes>>(m, "Processes", "The processes that a launcher started, of which this is one.")
      .def(py::init<const std::string&, double>(), py::arg("engine"), py::arg("timeout"))
      .def_property_readonly("engine", &Processes::engine)
      .def_property_readonly("rank", &Processes::rank)
      .def_property_readonly("ranks", &Processes::ranks)
      .def_property_readonly("failed", &Processes::failed)
      .def("collective", &collective, py::arg("kind"), py::arg("reduction"), py::arg("value"), py::arg("shape"), py::arg("root"))
      .def("close", [](Processes& all) { without_lock([&] { all.close(); }); });
}

}  // namespace nabla::python
