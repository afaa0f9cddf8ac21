// What the fake driver keeps. Device memory lies in one reserved range that the process cannot touch but while the
// "GPU" works; addresses are never given out again, so that whatever was freed stays an error. Streams hold their work
// until somebody waits, as a GPU may: a result that is read too early is not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/fake_driver/images.h"
#include "tests/cuda/fake_driver/kernels.h"

namespace nabla::fake_cuda {

// CUresult
enum Status : int {
  kOk = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinary = 209,
  kUnsupportedPtx = 222,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kOutOfResources = 701,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
};

/// Work in a stream or in a graph. Gives what the GPU finds while it runs.
using Work = std::function<int()>;

struct Stream;
/// An event at one time that it was recorded.
struct Mark {
  Stream* stream = nullptr;  ///< in which it was recorded
  bool done = false;
};
/// What a stream does next: some work, after what another stream has recorded.
struct Item {
  Work work;
  std::shared_ptr<Mark> after;  ///< null: nothing
  std::shared_ptr<Mark> mark;   ///< is done with the work; null: none
  Work ready = nullptr;         ///< kNotReady: the stream stays here, and asks again; null: at once
};
/// What streams record together: the first one began it, others joined by waiting for an event of it.
struct Capture {
  struct Node {
    size_t branch;  ///< 0: the stream that began
    Item item;
  };
  std::vector<Stream*> streams;  ///< by branch
  std::vector<size_t> length, joined;  ///< by branch: its nodes, and how many of them branch 0 waits for
  std::vector<Node> nodes;
  std::thread::id owner = std::this_thread::get_id();  ///< that began it
  bool broken = false;                                 ///< it was invalidated
  bool ended = false;
};
struct Stream {
  std::deque<Item> queue = {};
  int ordinal = 0;                   ///< of its GPU
  std::shared_ptr<Capture> capture = nullptr;  ///< it records nothing
  size_t branch = 0;                 ///< of the capture
};
struct Event {
  bool timing = true;
  std::shared_ptr<Mark> mark;       ///< the last time; null: never
  std::shared_ptr<Capture> capture;  ///< in which that was, if it was in one
  size_t branch = 0, length = 0;     ///< of it, up to the event
  double milliseconds = -1;  ///< when it happened; -1: it has not
};
struct Function {
  const Kernels* kernels;
  std::string symbol;
  std::vector<size_t> parameters;  ///< bytes of each
  unsigned most_threads = 1024;  ///< of a block, as its launch bounds say
  unsigned registers = 0;        ///< of a thread; 0: unknown
  unsigned static_shared = 0;
  unsigned max_dynamic_shared = (48 << 10) - static_shared;  ///< until a program asks for more
};
struct Module {
  std::unique_ptr<Kernels> kernels;
  Image image;
  std::map<std::string, std::unique_ptr<Function>> functions;  ///< those that were asked for
};
struct Graph {
  std::vector<Capture::Node> nodes;
  size_t branches = 1;
  /// Of an executable one: where branches after the first run.
  std::vector<std::unique_ptr<Stream>> streams = {};
};

/// Device memory.
class Memory {
 public:
  Memory();
  int allocate(uint64_t bytes, uint64_t& address);
  int release(uint64_t address);
  /// Is all of it inside one live allocation?
  bool holds(uint64_t address, uint64_t bytes) const;
  /// Is it an address of the device at all?
  bool mine(uint64_t address) const { return address >= base_ && address < base_ + kReserved; }
  uint64_t live_bytes() const { return live_bytes_; }
  size_t live() const { return live_.size(); }
  /// Lets the process touch live allocations for as long as the object lives.
  class Open {
   public:
    explicit Open(Memory& memory) : memory_(memory) { memory_.protect(true); }
    ~Open() { memory_.protect(false); }

   private:
    Memory& memory_;
  };

  static constexpr uint64_t kReserved = uint64_t{1} << 36;

 private:
  void protect(bool open);
  uint64_t base_ = 0, next_ = 0, live_bytes_ = 0;
  std::map<uint64_t, uint64_t> live_;  ///< address and bytes
};

struct State {
  bool initialized = false;
  int contexts = 0;  ///< retained
  int sticky = kOk;  ///< what a kernel did wrong; every later call says it again
  Memory memory;
  /// Where emulated kernels run; with NABLA_FAKE_CUDA_CHECKED it looks at each of their loads and stores.
  emulator::Machine machine{std::getenv("NABLA_FAKE_CUDA_CHECKED") != nullptr};
  std::map<char*, size_t> pinned;
  std::set<Stream*> streams;
  Stream* first = nullptr;  ///< that was made and lives
  std::set<Event*> events;
  std::set<Module*> modules;
  std::set<Function*> functions;
  std::set<Graph*> graphs, execs;
  std::map<std::string, int> calls;  ///< by name, and kernels as "kernel NAME"
  std::map<std::string, int64_t> bytes;  ///< that copies have moved, by the name of their call
};

State& state();
/// Every function of the driver holds it: threads may call any, and what runs on the GPU runs in the thread that waits.
struct Lock {
  Lock() : held(mutex()) {}
  static std::recursive_mutex& mutex();
  std::lock_guard<std::recursive_mutex> held;
};
/// The calling thread's context was set.
bool& current();
/// To that of this GPU.
int& ordinal();

/// Counts a call and gives the status that $NABLA_FAKE_CUDA_FAIL="NAME:COUNT[:STATUS]" wants of this one, else 0.
int injected(const std::string& name, int status);
/// Begins every call: counts it, and refuses what cannot be now. `context`: it needs a current context.
int begin(const char* name, int status = kInvalidValue, bool context = true);
/// A call that a thread with a capture of its own may not make: the capture is lost.
int forbid_in_capture();
/// Into the stream's queue, or into what it records.
int put(Stream* stream, Item item);
inline int put(Stream* stream, Work work) { return put(stream, Item{std::move(work), nullptr, nullptr}); }
/// Begins the next item of a stream, and for its sake what other streams have to do before. False: it is not ready.
bool advance(Stream& stream);
/// Lets other threads call the driver for a while.
void let_others();
/// With NABLA_FAKE_CUDA_EAGER all that streams other than the first one can do by now is done, and with NABLA_FAKE_CUDA_AT_ONCE all that
/// any stream can do. Else streams wait until somebody waits for them.
void hurry();

template <class T>
bool known(const std::set<T*>& set, T* handle) {
  return set.count(handle) > 0;
}

/// Runs a stream's work, waiting for what is not ready; the first fault sticks.
int drain(Stream& stream);

}  // namespace nabla::fake_cuda
