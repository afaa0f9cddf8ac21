// A libnccl.so.2 for tests: ranks in threads or processes, each with a GPU of the fake driver, that meet by files in the folder that
// their unique id names. Streams come to an exchange where they come to it, and stay there until all members have come. What NCCL
// forbids is refused, with the reason on stderr: a GPU that two ranks share, a rank that comes twice, calls while one before is in
// progress, after an abort or of another thread's GPU, members that do not call the same in the same order, messages that nobody
// receives, memory and streams that the driver does not know. Communicators are non-blocking: every call returns before it has
// done anything, and the next question after it finds it in progress. What a graph has recorded happens at each of its launches.
//   NABLA_FAKE_NCCL_FAIL="NAME:COUNT[:STATUS]" makes a call fail; _VERSION ("21705") changes what it says it is.
//   NABLA_FAKE_NCCL_FAULT, a list of KIND:RANK[:N], for that rank of every communicator: `hang` leaves the N-th exchange out, `async`
//   ends it with ncclRemoteError, `init` never comes to connect, `abort` never returns from an abort.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>

#include <fmt/format.h>

#include "tests/cuda/fake_library/fake_library.h"
#include "tests/cuda/fake_nccl/exchange.h"

using namespace nabla::fake_nccl;              // NOLINT: this is its library
using nabla::fake_library::address;            // NOLINT
using nabla::fake_library::driver;             // NOLINT
using nabla::fake_library::environment;        // NOLINT

namespace {

// ncclResult_t, CUresult
constexpr int kOk = 0, kCudaError = 1, kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6, kInProgress = 7;
constexpr int kNotReady = 600;

struct UniqueId {
  char bytes[128];
};
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

struct Op;

struct Comm {
  std::string folder;
  int rank = 0, ranks = 0, ordinal = 0;
  enum Phase { kConnecting, kReady, kClosing, kClosed, kGone } phase = kConnecting;
  int polls = 0;                 // until what is in progress is done
  std::vector<std::shared_ptr<Op>> deferred;  // that GetAsyncError puts into streams
  std::atomic<bool> aborted{false};
  std::atomic<int> error{kOk}, under_way{0};
  std::atomic<int> in_graphs{0};  // what graphs hold: until they are gone it cannot go either
  std::string why;
  uint64_t collectives = 0, exchanges = 0;
  std::map<std::pair<int, bool>, uint64_t> messages;  // by peer and direction
};

/// One call in a stream.
struct Op {
  std::shared_ptr<Comm> comm;
  Call call;
  const void* from = nullptr;
  void* to = nullptr;
  void* stream = nullptr;
  int peer = 0;
  // Of what the stream does now: a graph does it again.
  uint64_t number = 0;  // of the communicator's collectives, or of the messages with the peer
  bool begun = false;   // at least once
  bool lost = false;    // by a fault
  bool taken = false;
  size_t from_bytes() const {
    size_t parts = call.kind == Kind::kReduceScatter ? static_cast<size_t>(comm->ranks) : 1;
    return call.count * bytes_of(call.type) * parts;
  }
  size_t to_bytes() const {
    size_t parts = call.kind == Kind::kAllGather ? static_cast<size_t>(comm->ranks) : 1;
    return call.count * bytes_of(call.type) * parts;
  }
  bool message() const { return call.kind == Kind::kSend || call.kind == Kind::kRecv; }
  std::string file(int of) const {
    if (!message()) return fmt::format("{}/collective-{}.{}", comm->folder, number, of);
    bool sends = call.kind == Kind::kSend;
    return fmt::format("{}/message-{}-{}-{}", comm->folder, sends ? comm->rank : peer, sends ? peer : comm->rank, number);
  }
};

nabla::fake_library::State& state() {
  static nabla::fake_library::State all{
      .name = "fake NCCL", .fail = "NABLA_FAKE_NCCL_FAIL", .invalid = kInvalidUsage, .failed = kSystemError};
  return all;
}
std::recursive_mutex& mutex() {
  static std::recursive_mutex all;
  return all;
}
struct Lock {
  std::lock_guard<std::recursive_mutex> held{mutex()};
};
std::map<void*, std::shared_ptr<Comm>>& comms() {
  static auto* all = new std::map<void*, std::shared_ptr<Comm>>;
  return *all;
}
std::string& last() {
  thread_local std::string text;
  return text;
}
/// Calls of a group that this thread has begun.
struct Group {
  int depth = 0;
  std::vector<std::shared_ptr<Op>> ops;
};
Group& group() {
  thread_local Group open;
  return open;
}

int refused(const std::string& why, int status = kInvalidUsage) {
  last() = why;
  (void)state().refuse(why);
  return status;
}

/// Where the ranks of a communicator, here or in other processes of the test, meet. An id has no room for a whole path.
constexpr std::string_view kNameOfFolder = "fake-nccl-XXXXXX";
std::string folder_of(std::string_view name) {
  std::string base = environment("TEST_TMPDIR");
  return fmt::format("{}/{}", base.empty() ? "/tmp" : base, name);
}

/// Is there such a fault for this rank? `number`: of the exchange.
bool fault(const std::string& kind, int rank, uint64_t number = 0) {
  std::istringstream all(environment("NABLA_FAKE_NCCL_FAULT"));
  for (std::string one; std::getline(all, one, ',');) {
    char name[32] = "";
    int of = -1;
    unsigned long long at = 0;
    if (std::sscanf(one.c_str(), "%31[^:]:%d:%llu", name, &of, &at) >= 2 && kind == name && of == rank && at == number) return true;
  }
  return false;
}

std::shared_ptr<Comm> find(void* comm) {
  auto found = comms().find(comm);
  return found == comms().end() ? nullptr : found->second;
}

int fail(Comm& comm, int status, const std::string& why) {
  if (comm.error == kOk) comm.error = status, comm.why = why, (void)state().refuse(why);
  return kNotReady;  // it never ends
}

// ---- In streams

struct Placed {
  std::shared_ptr<Op> op;
  bool in_graph;
};
Op& op_of(void* context) { return *static_cast<Placed*>(context)->op; }
void release(void* context) {
  auto* placed = static_cast<Placed*>(context);
  placed->op->comm->in_graphs -= placed->in_graph;
  delete placed;
}

/// The next exchange of its communicator, in the order in which streams come to them.
void begin(Op& op) {
  Comm& comm = *op.comm;
  if (std::exchange(op.begun, true)) ++comm.under_way;
  op.taken = false;
  op.number = op.message() ? ++comm.messages[{op.peer, op.call.kind == Kind::kSend}] : ++comm.collectives;
  ++comm.exchanges;
  op.lost = fault("hang", comm.rank, comm.exchanges) || fault("async", comm.rank, comm.exchanges);
  if (fault("async", comm.rank, comm.exchanges))
    fail(comm, kRemoteError, fmt::format("rank {} has lost its peer in {}", comm.rank, op.call.str()));
}

int leave(void* context) {
  Op& op = op_of(context);
  begin(op);
  if (op.comm->aborted || op.lost || op.call.kind == Kind::kRecv) return kOk;
  write(op.file(op.comm->rank), packed(op.call, op.from, op.from_bytes()));
  return kOk;
}

int message_ready(Op& op) {
  if (op.call.kind == Kind::kSend) return there(op.file(0)) ? kNotReady : kOk;  // until it is taken
  std::string own = op.file(0) + ".taken";
  if (!op.taken) {
    if (!there(op.file(0))) return kNotReady;
    std::rename(op.file(0).c_str(), own.c_str());
    op.taken = true;
  }
  Call sent = call_of(read(own)), wanted = op.call;
  if (sent.count * bytes_of(sent.type) != wanted.count * bytes_of(wanted.type))
    return fail(*op.comm, kInvalidUsage,
                fmt::format("rank {} receives {}, and rank {} sends {}", op.comm->rank, wanted.str(), op.peer, sent.str()));
  return kOk;
}

int ready(void* context) {
  Op& op = op_of(context);
  if (op.comm->aborted) return kOk;
  if (op.lost || op.comm->error != kOk) return kNotReady;
  if (op.message()) return message_ready(op);
  for (int r = 0; r < op.comm->ranks; ++r)
    if (!there(op.file(r))) return kNotReady;
  for (int r = 0; r < op.comm->ranks; ++r)
    if (Call theirs = call_of(read(op.file(r))); !(theirs == op.call))
      return fail(*op.comm, kInvalidUsage,
                  fmt::format("rank {} calls {}, and rank {} {}", op.comm->rank, op.call.str(), r, theirs.str()));
  return kOk;
}

int arrive(void* context) {
  Op& op = op_of(context);
  --op.comm->under_way;
  if (op.comm->aborted || op.call.kind == Kind::kSend) return kOk;
  if (op.call.kind == Kind::kRecv) {
    std::string own = op.file(0) + ".taken", file = read(own);
    std::memcpy(op.to, data_of(file), op.to_bytes());
    ::unlink(own.c_str());
    return kOk;
  }
  std::vector<std::string> files;
  for (int r = 0; r < op.comm->ranks; ++r) files.push_back(read(op.file(r)));
  std::vector<char> result = result_of(op.call, static_cast<uint32_t>(op.comm->rank), files);
  std::memcpy(op.to, result.data(), result.size());
  // Who has left the next one has read this one.
  if (op.number > 2) ::unlink(fmt::format("{}/collective-{}.{}", op.comm->folder, op.number - 2, op.comm->rank).c_str());
  return kOk;
}

int put(const std::shared_ptr<Op>& op, int (*when)(void*), int (*work)(void*)) {
  auto* context = new Placed{op, driver()->capturing(op->stream) != 0};
  op->comm->in_graphs += context->in_graph;
  int status = when == nullptr ? driver()->put(op->stream, work, context, release)
                               : driver()->put_when(op->stream, when, work, context, release);
  return status == kOk ? kOk : refused(fmt::format("the driver refuses the stream of {}: {}", op->call.str(), status), kCudaError);
}

/// Calls of one group begin together.
int enqueue(const std::vector<std::shared_ptr<Op>>& ops) {
  for (const auto& op : ops)
    if (int status = put(op, nullptr, leave); status != kOk) return status;
  // What is received has to be taken while what is sent waits to be.
  for (bool sends : {false, true})
    for (const auto& op : ops)
      if ((op->call.kind == Kind::kSend) == sends)
        if (int status = put(op, ready, arrive); status != kOk) return status;
  return kOk;
}

// ---- Calls

/// May this thread call the communicator now?
int usable(const std::shared_ptr<Comm>& comm, const char* call) {
  if (comm == nullptr || comm->phase == Comm::kGone)
    return refused(fmt::format("{} of a communicator that is gone", call), kInvalidArgument);
  if (comm->phase == Comm::kConnecting) return refused(fmt::format("{} while the communicator connects", call));
  if (comm->phase != Comm::kReady) return refused(fmt::format("{} after ncclCommFinalize", call));
  if (comm->error != kOk) return refused(fmt::format("{} after {}", call, comm->why));
  if (!comm->deferred.empty()) return refused(fmt::format("{} while the call before is in progress", call));
  if (driver() == nullptr || driver()->ready() == 0 || driver()->ordinal() != comm->ordinal)
    return refused(fmt::format("{} with another GPU than the communicator's", call));
  return kOk;
}

int issue(void* handle, Call call, const void* from, void* to, int peer, void* stream) {
  Lock lock;
  const char* name = name_of(call.kind);
  if (int wish = state().begin(name); wish != kOk) return last() = fmt::format("{} was made to fail", name), wish;
  std::shared_ptr<Comm> comm = find(handle);
  if (int status = usable(comm, name); status != kOk) return status;
  auto op = std::make_shared<Op>();
  op->comm = comm, op->call = call, op->from = from, op->to = to, op->stream = stream, op->peer = peer;
  if (bytes_of(call.type) == 0 || call.op < 0 || call.op > 3)
    return refused(fmt::format("{}: no such type or operation", call.str()), kInvalidArgument);
  if (call.count == 0) return refused(fmt::format("{}: nothing", call.str()), kInvalidArgument);
  if (peer < 0 || peer >= comm->ranks || (op->message() && peer == comm->rank))
    return refused(fmt::format("{} with rank {} of {}", call.str(), peer, comm->ranks), kInvalidArgument);
  bool reads = call.kind != Kind::kRecv, writes = call.kind != Kind::kSend;
  if ((reads && driver()->holds(address(from), op->from_bytes()) == 0) ||
      (writes && driver()->holds(address(to), op->to_bytes()) == 0))
    return refused(fmt::format("{} outside of the GPU's memory", call.str()), kInvalidArgument);
  ++comm->under_way;
  if (group().depth > 0) return group().ops.push_back(op), kOk;
  comm->deferred.push_back(op), comm->polls = 2;
  return kInProgress;
}

// Ranks that are told so are hosts of their own, which may share a GPU.
std::string host() {
  if (const char* told = std::getenv("NCCL_HOSTID"); told != nullptr && *told != 0) return told;
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

/// All have come to connect: do they fit together?
int connected(Comm& comm) {
  std::vector<std::string> who;
  for (int r = 0; r < comm.ranks; ++r) {
    std::string file = fmt::format("{}/rank-{}", comm.folder, r);
    if (!there(file)) return kInProgress;
    who.push_back(read(file));
  }
  for (int r = 0; r < comm.ranks; ++r)
    for (int s = 0; s < r; ++s)
      if (who[static_cast<size_t>(r)] == who[static_cast<size_t>(s)])
        return fail(comm, kInvalidUsage,
                    fmt::format("Duplicate GPU detected : rank {} and rank {} both on CUDA device {:x}", s, r, 4096 * (comm.ordinal + 1))),
               kInvalidUsage;
  comm.phase = Comm::kReady;
  return kOk;
}

int progress(Comm& comm) {
  if (comm.error != kOk) return comm.error;
  if (comm.phase == Comm::kConnecting) return connected(comm);
  if (comm.phase == Comm::kClosing) return comm.under_way > 0 ? kInProgress : (comm.phase = Comm::kClosed, kOk);
  if (comm.deferred.empty()) return kOk;
  if (--comm.polls > 0) return kInProgress;
  std::vector<std::shared_ptr<Op>> ops = std::move(comm.deferred);
  comm.deferred.clear();
  int status = enqueue(ops);
  if (status != kOk) comm.error = status, comm.why = last();
  return status;
}

/// A communicator waits until the graphs that hold its exchanges have been destroyed, when it is aborted too.
void wait_for_graphs(const Comm& comm) {
  for (; comm.in_graphs > 0; ::usleep(100)) driver()->go_on();
}

}  // namespace

extern "C" {

/// For tests: how often a call was made.
int nb_fake_nccl_count(const char* name) {
  Lock lock;
  return state().calls[name];
}

int ncclGetVersion(int* version) {
  const char* text = environment("NABLA_FAKE_NCCL_VERSION");
  *version = *text == 0 ? 22809 : std::atoi(text);
  return kOk;
}
const char* ncclGetErrorString(int status) {
  constexpr const char* kTexts[] = {"no error",         "unhandled cuda error", "unhandled system error", "internal error",
                                    "invalid argument", "invalid usage",        "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return status >= 0 && status < 8 ? kTexts[status] : "unknown result code";
}
const char* ncclGetLastError(void* handle) {
  Lock lock;
  if (std::shared_ptr<Comm> comm = find(handle); comm != nullptr && comm->error != kOk) last() = comm->why;
  return last().c_str();
}

int ncclGetUniqueId(UniqueId* id) {
  Lock lock;
  if (int wish = state().begin("ncclGetUniqueId"); wish != kOk) return wish;
  std::string folder = folder_of(kNameOfFolder);
  if (::mkdtemp(folder.data()) == nullptr) return refused("no folder for files of a communicator", kSystemError);
  std::string_view name = std::string_view(folder).substr(folder.size() - kNameOfFolder.size());
  std::memset(id->bytes, 0, sizeof id->bytes);
  std::memcpy(id->bytes, name.data(), name.size());
  return kOk;
}

int ncclCommInitRankConfig(void** out, int ranks, UniqueId id, int rank, const Config* config) {
  Lock lock;
  if (int wish = state().begin("ncclCommInitRankConfig"); wish != kOk) return wish;
  *out = nullptr;
  if (driver() == nullptr || driver()->ready() == 0) return refused("no GPU is chosen", kCudaError);
  if (config->size < 48 || config->magic != 0xcafebeef || config->version < 21400)
    return refused("the configuration is none", kInvalidArgument);
  if (config->blocking != 0) return refused("a communicator that blocks", kInvalidArgument);
  if (rank < 0 || rank >= ranks) return refused(fmt::format("rank {} of {}", rank, ranks), kInvalidArgument);
  auto comm = std::make_shared<Comm>();
  comm->folder = folder_of({id.bytes, strnlen(id.bytes, sizeof id.bytes)});
  comm->rank = rank, comm->ranks = ranks, comm->ordinal = driver()->ordinal();
  std::string file = fmt::format("{}/rank-{}", comm->folder, rank), all = comm->folder + "/ranks";
  if (id.bytes[0] == 0 || !there(comm->folder)) return refused("nobody has made this unique id", kInvalidArgument);
  if (there(file)) return refused(fmt::format("rank {} comes twice", rank));
  if (there(all) && read(all) != std::to_string(ranks))
    return refused(fmt::format("rank {} is one of {}, others of {}", rank, ranks, read(all)));
  write(all, std::to_string(ranks));
  if (!fault("init", rank)) write(file, fmt::format("{}/{}", host(), comm->ordinal));
  *out = comm.get();
  comms()[comm.get()] = std::move(comm);
  return kInProgress;
}

int ncclCommGetAsyncError(void* handle, int* error) {
  Lock lock;
  if (int wish = state().begin("ncclCommGetAsyncError"); wish != kOk) return wish;
  std::shared_ptr<Comm> comm = find(handle);
  if (comm == nullptr || comm->phase == Comm::kGone)
    return refused("ncclCommGetAsyncError of a communicator that is gone", kInvalidArgument);
  *error = progress(*comm);
  return kOk;
}

int ncclCommAbort(void* handle) {
  std::shared_ptr<Comm> comm;
  {
    Lock lock;
    if (int wish = state().begin("ncclCommAbort"); wish != kOk) return wish;
    comm = find(handle);
    if (comm == nullptr || comm->phase == Comm::kGone) return refused("ncclCommAbort of a communicator that is gone", kInvalidArgument);
    if (comm->under_way > 0 && comm->error == kOk)
      std::fprintf(stderr, "fake NCCL: rank %d aborts %d exchanges that are under way\n", comm->rank, comm->under_way.load());
    comm->aborted = true, comm->phase = Comm::kGone, comm->deferred.clear();
  }
  while (fault("abort", comm->rank)) ::usleep(100'000);
  wait_for_graphs(*comm);
  return kOk;
}

int ncclCommFinalize(void* handle) {
  Lock lock;
  if (int wish = state().begin("ncclCommFinalize"); wish != kOk) return wish;
  std::shared_ptr<Comm> comm = find(handle);
  if (int status = usable(comm, "ncclCommFinalize"); status != kOk) return status;
  comm->phase = Comm::kClosing;
  return kInProgress;
}

int ncclCommDestroy(void* handle) {
  std::shared_ptr<Comm> comm;
  {
    Lock lock;
    if (int wish = state().begin("ncclCommDestroy"); wish != kOk) return wish;
    comm = find(handle);
    if (comm == nullptr || comm->phase != Comm::kClosed) return refused("ncclCommDestroy without ncclCommFinalize");
    comm->phase = Comm::kGone;
  }
  wait_for_graphs(*comm);
  return kOk;
}

int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, void* comm, void* stream) {
  return issue(comm, {Kind::kAllReduce, type, op, 0, count}, from, to, 0, stream);
}
int ncclAllGather(const void* from, void* to, size_t count, int type, void* comm, void* stream) {
  return issue(comm, {Kind::kAllGather, type, 0, 0, count}, from, to, 0, stream);
}
int ncclReduceScatter(const void* from, void* to, size_t count, int type, int op, void* comm, void* stream) {
  return issue(comm, {Kind::kReduceScatter, type, op, 0, count}, from, to, 0, stream);
}
int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, void* comm, void* stream) {
  return issue(comm, {Kind::kBroadcast, type, 0, root, count}, from, to, root, stream);
}
int ncclSend(const void* from, size_t count, int type, int peer, void* comm, void* stream) {
  return issue(comm, {Kind::kSend, type, 0, 0, count}, from, nullptr, peer, stream);
}
int ncclRecv(void* to, size_t count, int type, int peer, void* comm, void* stream) {
  return issue(comm, {Kind::kRecv, type, 0, 0, count}, nullptr, to, peer, stream);
}

int ncclGroupStart() {
  ++group().depth;
  return kOk;
}
int ncclGroupEnd() {
  Lock lock;
  if (group().depth == 0) return refused("ncclGroupEnd without ncclGroupStart");
  if (--group().depth > 0) return kOk;
  std::vector<std::shared_ptr<Op>> ops = std::move(group().ops);
  group().ops.clear();
  for (const auto& op : ops) {
    if (op->comm != ops[0]->comm || op->stream != ops[0]->stream) return refused("a group of several communicators or streams");
    op->comm->deferred.push_back(op), op->comm->polls = 2;
  }
  return ops.empty() ? kOk : kInProgress;
}

}  // extern "C"
