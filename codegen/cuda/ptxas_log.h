// What NVRTC's assembler says with -v.
#pragma once

#include <map>
#include <string>

namespace nabla::codegen {

struct PtxasFacts {
  int registers = 0;
  int shared_bytes = 0;                             ///< static, per block
  int spill_store_bytes = 0, spill_load_bytes = 0;  ///< of the kernel and of the functions that it calls
};

struct PtxasLog {
  std::map<std::string, PtxasFacts> kernels;
  std::string messages;  ///< the other lines of the log
};

PtxasLog read_ptxas_log(const std::string& log);

}  // namespace nabla::codegen
