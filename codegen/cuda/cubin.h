// What a cubin says about itself, read from its ELF sections without NVIDIA's tools.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda/sass.h"
#include "runtime/base/diagnostic.h"

namespace nabla::codegen {

/// Bytes of a block's shared memory that the system reserves. The sizes in cubins for sm_90 and later include them.
inline constexpr int kReservedShared = 1024;

/// Where a kernel expects a parameter, in bytes from the first one.
struct CudaParameter {
  int ordinal = 0, offset = 0, bytes = 0;
  bool operator==(const CudaParameter&) const = default;
};

struct CubinKernel {
  std::string name;
  int registers = 0;            ///< per thread
  int frame_bytes = 0;          ///< local memory per thread: arrays that are indexed, and spilled registers
  int static_shared_bytes = 0;  ///< per block, without what the system reserves
  int barriers = 0;
  int max_threads = 0;                    ///< of a block, from __launch_bounds__; 0: not said
  std::vector<CudaParameter> parameters;  ///< by ordinal
  InstructionCounts instructions;         ///< of all its code
  KernelCode code;
  bool operator==(const CubinKernel&) const = default;
};

/// The kernels of a cubin, by name. E0506 when the bytes are no well-formed cubin; none are trusted.
/// Sources: the ELF specification; NVIDIA's .nv.info attributes and opcodes as observed with CUDA 12.9 to 13.5.
Result<std::vector<CubinKernel>> read_cubin(std::string_view bytes);

}  // namespace nabla::codegen
