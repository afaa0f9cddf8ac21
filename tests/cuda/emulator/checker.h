// Looks at every load and store of a checked object: ends of memory, initialisation, races, traffic.
#pragma once

#include <functional>

#include "tests/cuda/emulator/memory.h"
#include "tests/cuda/emulator/report.h"
#include "tests/cuda/emulator/warp_costs.h"

namespace nabla::emulator {

enum class Access { kRead, kWrite, kAtomic, kCopyIssued, kCopyDone };
/// How an access reaches memory: loads, stores and cp.async use the generic proxy; wgmma and TMA use the asynchronous one.
enum class Proxy { kGeneric, kAsync };

/// Order is made by __syncthreads and __syncwarp alone, as in CUDA: shuffles and votes order no memory.
class Checker {
 public:
  using Fault = std::function<void(const char* kind, const std::string& text, const void* pc)>;

  Checker(Memory& memory, Fault fault) : memory_(memory), fault_(std::move(fault)) {}
  Checker(const Checker&) = delete;

  void begin_launch(Traffic* traffic, bool count_warps);
  /// `dynamic` and `fixed` are the block's shared memory.
  void begin_block(int threads, char* fixed, char* fixed_end, char* dynamic, char* dynamic_end);
  void end_block();
  void block_barrier() { ++epoch_; }
  void warp_sync(int warp, unsigned mask);
  /// The thread executes fence.proxy.async.
  void proxy_fence(int thread) { fences_[thread].push_back({epoch_, clocks_[thread / 32].own[thread % 32]}); }
  /// False: the access leaves all memory that a kernel may touch, and must not happen.
  bool access(int thread, const void* at, int64_t bytes, Access kind, Proxy proxy, const void* pc);

 private:
  struct Clocks {  // of the lanes of a warp
    uint32_t own[32], seen[32][32];
  };
  struct Fence {
    uint32_t epoch, clock;  // of the thread that executes it
  };

  bool outside(const void* at, int64_t bytes, Access kind, const void* pc);
  bool check_byte(Shadow& s, const Region& r, const void* at, Access kind, Proxy proxy, int thread, const void* pc);
  bool fenced_before(const Shadow& s, int thread) const;
  bool written_before(const Shadow& s, int thread) const;
  bool read_before(const Shadow& s, int thread) const;
  void note_read(Shadow& s, int thread);
  void note_write(Shadow& s, int thread, Access kind, Proxy proxy);
  bool knows(int thread, int other_lane, uint32_t clock) const {
    return clocks_[thread / 32].seen[thread % 32][other_lane] >= clock;
  }

  Memory& memory_;
  Fault fault_;
  Traffic* traffic_ = nullptr;
  Region fixed_, dynamic_;
  std::vector<Shadow> fixed_shadow_, dynamic_shadow_;
  std::vector<Clocks> clocks_;
  std::vector<std::vector<Fence>> fences_;  // of the asynchronous proxy, by thread
  uint32_t blocks_ = 0, many_blocks_ = 0, epoch_ = 0;
  bool count_warps_ = false;
  WarpCosts costs_;
};

}  // namespace nabla::emulator
