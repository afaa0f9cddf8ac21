// What the accesses of warps cost: the sectors of global memory that they fall into, and the clocks of banks of shared memory.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/cuda/emulator/report.h"

namespace nabla::emulator {

/// Of one block at a time. Lanes of a warp access memory together when they come to the same place for the same time: those that
/// take another way in between are taken to go on side by side, as most do.
class WarpCosts {
 public:
  void begin_block(int threads);
  /// `at`: the address, or the place in shared memory, whose first byte lies in the first bank.
  void access(int thread, const void* pc, bool shared, uint64_t at, int bytes);
  /// Adds what the block's accesses cost.
  void end_block(Traffic& out);

 private:
  struct Access {
    const void *pc, *last_pc;
    int warp, lane, bytes;
    uint32_t visit;  // how often the thread has come to this place
    bool shared;
    uint64_t at;
  };

  int threads_ = 0;
  std::map<const void*, std::vector<uint32_t>> visits_;  // of each thread
  std::vector<Access> all_;
};

}  // namespace nabla::emulator
