// What a multiprocessor holds of a kernel, from the kernel's facts alone.
#pragma once

#include <string_view>

#include "codegen/cuda/cubin.h"
#include "ir/target.h"

namespace nabla::codegen {

inline constexpr int kStaticShared = 48 << 10;  ///< bytes of shared memory that a block's kernel may declare

/// Of one multiprocessor at the same time.
struct Occupancy {
  int blocks = 0, warps = 0;  ///< 0: the kernel cannot be launched so
  bool operator==(const Occupancy&) const = default;
};

/// Resident blocks of `threads` threads with `dynamic_shared_bytes` beside the kernel's static shared memory.
/// Source: NVIDIA's cuda_occupancy.h and the CUDA programming guide (compute capabilities 8.0 to 12.0).
Occupancy occupancy(const CubinKernel& kernel, const ir::Target& target, int threads, int dynamic_shared_bytes);

/// E0506 with the numbers where no block of `threads` threads fits the target: threads, registers or shared memory.
/// `threads` 0: not known, and only shared memory is checked. `called`: the kernel's name in the message; empty: its own.
Status check_launch(const CubinKernel& kernel, const ir::Target& target, int threads, int dynamic_shared_bytes,
                    std::string_view called = "");

}  // namespace nabla::codegen
