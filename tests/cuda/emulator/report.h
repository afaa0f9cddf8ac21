// What a launch reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nabla::emulator {

/// A fault of a kernel. Kinds: "barrier", "warp", "deadlock", "copy" of every launch; "race", "bounds",
/// "uninitialised", "misaligned", "unwritten" of checked ones.
struct Finding {
  std::string kind, text;
  unsigned block = 0, thread = 0;
  int line = 0;             ///< of the source, 0: unknown
  std::string source_line;  ///< its text
  const void* pc = nullptr;

  /// "race: ... (block 0, thread 33, line 12: `y[i] = x;`)"
  std::string str() const;
};

/// Bytes that threads have read and written, each access counted. Of checked launches only.
struct Traffic {
  int64_t global_read = 0, global_written = 0, shared_read = 0, shared_written = 0;
  // Of Options::count_warps: what accesses cost, and what their bytes would cost side by side.
  int64_t sectors = 0, least_sectors = 0;          ///< of 32 bytes of global memory, for each access of a warp
  int64_t bank_clocks = 0, least_bank_clocks = 0;  ///< of shared memory

  Traffic& operator+=(const Traffic& x);
};

struct Report {
  std::vector<Finding> findings;
  Traffic traffic;
  int64_t switches = 0;  ///< between fibers

  bool clean() const { return findings.empty(); }
  std::string str() const;  ///< a line per finding
};

enum class Order { kForward, kReverse, kRandom };

/// Legal freedoms of a GPU; a right kernel gives the same bits under all of them.
struct Options {
  Order order = Order::kForward;  ///< of blocks, of threads, and of who goes on first after a barrier
  uint64_t seed = 1;              ///< of kRandom
  bool late_copies = true;        ///< cp.async copies when it is waited for; else when it is issued
  bool count_warps = false;       ///< count what accesses of warps cost (checked launches)

  std::string str() const;
};

}  // namespace nabla::emulator
