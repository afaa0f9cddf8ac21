// Runs the blocks of one launch, one after the other, a fiber per thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/cuda/emulator/abi.h"
#include "tests/cuda/emulator/checker.h"
#include "tests/cuda/emulator/fibers.h"
#include "tests/cuda/emulator/report.h"

namespace nabla::emulator {

struct Launch {
  const NbEmuObject* object = nullptr;
  const NbEmuKernel* kernel = nullptr;
  unsigned blocks = 1, threads = 1;
  size_t shared_bytes = 0;  ///< dynamic
  void** args = nullptr;    ///< args[i] points to the value of argument i
};

/// There is one, since running code asks for it without a name; launches wait for each other.
class Engine {
 public:
  static Engine& get();
  const NbEmuHost* host() const { return &host_; }

  /// `lines` gives the source lines of an address, innermost first, joined; two barriers with equal ones are one.
  using Lines = std::function<std::string(const void* pc)>;
  /// Ends at a deadlock or at an access outside of all memory. `checker` may be null; `memory` is its own.
  void run(const Launch& launch, const Options& options, const Lines& lines, Checker* checker, Report& report);
  /// A finding at the place that runs.
  void fault(const char* kind, const std::string& text, const void* pc);

 private:
  enum class State : uint8_t { kNew, kReady, kAtBarrier, kInWarp, kAtCopies, kDone };
  struct Copy {
    void* to;
    const void* from;
    int bytes;
    const void* pc;
    int thread = -1, zeros = 0;  // of a box: who asked for it, and bytes after the copied ones
  };
  /// An mbarrier: a phase ends when all have arrived and all expected bytes are there.
  struct CopyBarrier {
    unsigned count = 0, missing = 0;
    int64_t bytes = 0;  // still to come
    unsigned phase = 0;
    std::vector<Copy> open;
    std::vector<int> waiting;
  };
  /// Sums of wgmma that are not there yet, and the last group of products that adds to them.
  struct Sums {
    float* at;
    std::vector<float> values;
    unsigned group;
  };
  struct Product {
    NbEmuWgmma what;
    unsigned group;
  };
  struct Thread {
    State state = State::kNew;
    int stack = -1;
    Context context = nullptr;
    const char* word = "";  // where it waits
    const void* pc = nullptr;
    std::vector<Copy> open;  // cp.async not committed
    std::vector<std::vector<Copy>> groups;
    std::vector<Sums> sums;
    std::vector<Product> products;  // that have not run
    unsigned committed = 0;         // groups of products
    int issued = 0;                 // products
    bool multiplies = false;        // a product of wgmma runs: what is read now, tensor cores read
  };
  /// Lanes of a warp that meet under one mask.
  struct Meeting {
    unsigned mask, arrived = 0;
    int readers = 0;  // lanes that have still to take their results
    const char* word;
    unsigned long bytes;
    NbEmuFinish finish = nullptr;
    alignas(64) unsigned char slots[32 * kNbEmuSlot];
  };
  struct Warp {
    std::vector<std::unique_ptr<Meeting>> meetings, spare;
    unsigned exited = 0;  // and lanes that never were
  };

  Engine();
  static void fiber();
  void run_block(unsigned block);
  void prepare_block(unsigned block);
  void report_deadlock();
  void stop();  // leaves the launch; does not return to the fiber
  void set_current(int thread);
  void go_on(Context* save, bool finished);
  void release(std::vector<int>& threads, bool first);
  void shuffle_order(std::vector<int>& threads);
  void thread_ends();
  void barrier_complete();
  void barrier(const char* word, const void* pc);
  Meeting& join(const char* word, unsigned mask, unsigned long bytes);
  void complete(Meeting& m);
  void warp(const char* word, unsigned mask, const void* in, unsigned long bytes, void* out, int from,
            NbEmuFinish finish, const void* pc);
  void copy_async(void* shared, const void* global, int bytes, const void* pc);
  void copy_wait(int left);
  CopyBarrier& copy_barrier(void* at, const char* word, const void* pc);
  void barrier_init(void* at, unsigned count, const void* pc);
  void barrier_expect(void* at, unsigned bytes, const void* pc);
  void barrier_wait(void* at, unsigned parity, const void* pc);
  void copy_box(void* at, void* shared, const NbEmuTensorMap* map, const int* where, int rank, const void* pc);
  void copy_row(CopyBarrier& b, char* to, const char* from, int64_t there, const void* pc);
  void settle(CopyBarrier& b);
  bool wgmma_ask(const NbEmuWgmma& what);
  bool wgmma_next(int left, NbEmuWgmma& out);
  void wgmma_sums(const NbEmuWgmma& of, float* sums, bool store);
  void check_warpgroups();
  void note(const void* at, unsigned long bytes, Access kind, const void* pc, Proxy proxy = Proxy::kGeneric);
  unsigned next_random();

  std::mutex one_at_a_time_;
  NbEmuHost host_{};
  NbEmuThread position_{};
  Launch launch_;
  Options options_;
  Lines lines_;
  Checker* checker_ = nullptr;
  Report* report_ = nullptr;

  Stacks stacks_;
  Context main_ = nullptr;
  int current_ = -1, stack_ = -1, alive_ = 0;
  bool stopped_ = false, finishing_ = false, exit_reported_ = false;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<int> ready_, waiting_;  // waiting: at the block's barrier
  size_t next_ready_ = 0;
  std::map<void*, CopyBarrier> copy_barriers_;  // of the block
  std::vector<char> dynamic_;
  uint64_t random_ = 1;
};

}  // namespace nabla::emulator
