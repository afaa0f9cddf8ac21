// What NVRTC's assembler says with -v.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nabla::codegen {

struct PtxasFacts {
  int registers = 0;
  int64_t shared_bytes = 0;                         ///< static, per block
  int spill_store_bytes = 0, spill_load_bytes = 0;  ///< of the kernel and of the functions that it calls
  /// What makes the kernel slow, such as "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized ...":
  /// messages with a number, and warnings.
  std::vector<std::string> advice;
};

/// What PTX declares. Cubins and the log hold sizes of local memory in 32 bits, and no log comes with PTX that nobody assembles.
struct PtxMemory {
  int64_t shared_bytes = 0;  ///< static, of all arrays
  int64_t local_bytes = 0;   ///< per thread, of the function that has most
};
PtxMemory memory_of_ptx(const std::string& ptx);

struct PtxasLog {
  std::map<std::string, PtxasFacts> kernels;
  std::string messages;  ///< the other lines of the log
};

PtxasLog read_ptxas_log(const std::string& log);

}  // namespace nabla::codegen
