// What a cubin says about itself, read from its ELF sections without NVIDIA's tools.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.h"

namespace nabla::codegen {

/// Where a kernel expects a parameter, in bytes from the first one.
struct CudaParameter {
  int ordinal = 0, offset = 0, bytes = 0;
  bool operator==(const CudaParameter&) const = default;
};

/// Instructions that move 1 or 2, 4, 8, 16 bytes per thread.
struct AccessCounts {
  int narrow = 0, bytes4 = 0, bytes8 = 0, bytes16 = 0;
  int total() const { return narrow + bytes4 + bytes8 + bytes16; }
  bool operator==(const AccessCounts&) const = default;
};

/// How often instructions stand in a kernel's code, not how often they run.
struct InstructionCounts {
  AccessCounts global_loads, global_stores, shared_loads, shared_stores;
  AccessCounts async_copies;  ///< global to shared memory (LDGSTS)
  int local_loads = 0, local_stores = 0;
  int matrix_loads = 0;              ///< LDSM
  int hmma = 0, hgmma = 0;           ///< tensor cores: of a warp, of four warps
  int ffma = 0, mufu = 0, bars = 0;  ///< f32 multiply-adds, special functions, barriers of a block
  bool operator==(const InstructionCounts&) const = default;
};

struct CubinKernel {
  std::string name;
  int registers = 0;            ///< per thread
  int frame_bytes = 0;          ///< local memory per thread: arrays that are indexed, and spilled registers
  int static_shared_bytes = 0;  ///< per block, without what the system reserves
  int barriers = 0;
  int max_threads = 0;                    ///< of a block, from __launch_bounds__; 0: not said
  std::vector<CudaParameter> parameters;  ///< by ordinal
  InstructionCounts instructions;
  bool operator==(const CubinKernel&) const = default;
};

/// The kernels of a cubin, by name. E0506 when the bytes are no well-formed cubin; none are trusted.
/// Sources: the ELF specification; NVIDIA's .nv.info attributes and opcodes as observed with CUDA 12.9 to 13.5.
Result<std::vector<CubinKernel>> read_cubin(std::string_view bytes);

/// Counts of a section .text.KERNEL for a compute capability such as 90: 16 bytes an instruction; a rest is ignored.
InstructionCounts count_instructions(std::string_view code, int compute);

}  // namespace nabla::codegen
