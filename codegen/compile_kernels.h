// The kernels of a planned module, compiled for one target.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/model.h"
#include "codegen/toolchain.h"
#include "ir/kernel_ir/tensor_map.h"
#include "ir/module.h"
#include "ir/remark.h"
#include "ir/target.h"

namespace nabla::codegen {

/// One grid of a GPU kernel: a row of Grid in runtime/format/program.fbs, and what the compiler made of it.
struct CodeGrid {
  std::string symbol;
  ir::Dim blocks = 1;
  int threads = 0, shared_bytes = 0;  ///< per block; dynamic shared memory
  int registers = 0;                  ///< per thread; 0: not known, as for PTX
  int local_bytes = 0;                ///< per thread: arrays and spilled registers in memory
  int static_shared_bytes = 0;        ///< per block
  int resident_warps = 0;             ///< of one multiprocessor
  GridPrediction predicted = {};
  std::vector<kernel_ir::TensorMap> maps = {};  ///< parameters after all others
  std::vector<std::string> warnings = {};       ///< of NVRTC's assembler: spilled registers, and what makes the kernel slow
};

struct TargetCode {
  struct Kernel {
    std::string symbol, object;   ///< the object is a member of the bundle
    std::vector<CodeGrid> grids;  ///< of a GPU target
  };
  std::vector<Kernel> kernels;  ///< as in Module::kernels
  /// Objects, then the generated text for people.
  std::vector<std::pair<std::string, std::string>> members;
  size_t code_bytes = 0;
  int cuda = 0;  ///< 13000: of a GPU target, compiled by NVRTC 13.0
  std::vector<ir::Remark> remarks;  ///< for the user: what NVRTC's assembler says makes a kernel slow
};

/// Prints and compiles every kernel: with the host compiler, or with NVRTC. Errors of both, and E0403 for a kernel that
/// the target cannot have, such as one of the user's without source for it.
Result<TargetCode> compile_kernels(const ir::Module& module, const ir::Target& target,
                                   const ToolchainOptions& options);

}  // namespace nabla::codegen
