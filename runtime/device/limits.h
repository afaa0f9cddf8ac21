// What this machine can do at most, measured: the ceilings that profiles and benchmarks compare with.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device/pool.h"

namespace nabla::device {

/// f32 fused multiply-adds in registers on the calling thread, with the widest vectors that this CPU has. Returns how
/// many floating-point operations were done, each multiply-add counted as two; 0 on a CPU without them.
double multiply_adds(int64_t rounds);

/// Copies past the caches, so that the lines written are not read before. Both are aligned to 32 bytes; `n` is a
/// multiple of 8. Requires AVX2.
void stream_copy(float* to, const float* from, int64_t n);

struct Limits {
  double flops = 0;  ///< f32 operations in a second, by fused multiply-adds; 0: unknown
  struct Copy {
    int64_t bytes;  ///< read and written
    double bytes_per_second;
  };
  std::vector<Copy> copies;  ///< by size, ascending; empty: unknown

  /// Of copies that move as many bytes, which tells the levels of the caches apart; 0: unknown.
  double bytes_per_second(double bytes) const;
};

/// With all threads of the pool; takes about a tenth of a second. What cannot be measured here stays unknown.
Limits measure_limits(ThreadPool& pool);

}  // namespace nabla::device
