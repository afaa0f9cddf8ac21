// Device memory with guard zones, and what the checker knows of every byte.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace nabla::emulator {

/// The last write and the last reads of a byte. Blocks are numbered through all launches.
struct Shadow {
  uint32_t write_block, write_epoch, write_clock;
  uint32_t read_block, read_epoch, read_clock, read_lanes;
  uint32_t write_fences;            ///< how many fences of the asynchronous proxy the writer had executed before the write
  int16_t write_thread, read_warp;  ///< kMany: several
  bool initialised, by_atomic, copying;
  bool generic;  ///< written by the generic proxy: by a store or by cp.async, and not by TMA

  bool operator==(const Shadow&) const = default;
};
constexpr int16_t kMany = -1;

/// A stretch of memory whose ends are known.
struct Region {
  std::string name;
  char *begin = nullptr, *end = nullptr;
  bool shared = false;
  Shadow* shadow = nullptr;  ///< per byte; null in a plain machine

  bool holds(const void* p) const { return p >= begin && p < end; }
  int64_t size() const { return end - begin; }
  /// "byte 12 of `x` (400 bytes)"
  std::string place(const void* p) const;
};

class Memory {
 public:
  static constexpr int64_t kGuard = 4096;

  explicit Memory(bool checked) : checked_(checked) {}
  ~Memory();
  Memory(const Memory&) = delete;

  /// Filled with 0xff: NaN in every format of floats. Aligned to 256 bytes.
  char* allocate(int64_t bytes, const std::string& name);
  /// Memory that is somebody else's, without guard zones, as if it were an allocation until it is released.
  void adopt(void* at, int64_t bytes, const std::string& name);
  void release(const void* at);
  /// Null: no allocation holds `p`.
  const Region* find(const void* p) const;
  /// The allocation whose guard zone holds `p`; null: none.
  const Region* near(const void* p) const;
  void mark_initialised(const void* at, int64_t bytes);
  void mark_uninitialised(const void* at, int64_t bytes);
  /// As `from` is, so is `to`, byte by byte.
  void copy_marks(const void* to, const void* from, int64_t bytes);
  /// The first byte that nobody has written, -1: none. Of a checked machine.
  int64_t first_unwritten(const void* at) const;
  /// Names of allocations whose guard zones have been written; they are mended.
  std::vector<std::string> broken_guards();

 private:
  struct Block {
    Region region;
    std::vector<char> bytes;  // none of adopted memory
  };
  void fill_guards(Block& b);

  bool checked_;
  std::vector<std::unique_ptr<Block>> blocks_;
  mutable size_t last_ = 0;
};

}  // namespace nabla::emulator
