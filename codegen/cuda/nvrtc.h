// CUDA C++ text in, cubins or PTX out: NVRTC on threads, through a cache on disk.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/cubin.h"
#include "codegen/toolchain.h"
#include "ir/target.h"

namespace nabla::codegen {

/// What is known of a compiled kernel.
struct CudaKernelFacts : CubinKernel {
  int spill_store_bytes = 0, spill_load_bytes = 0;  ///< per thread: registers that went to local memory
  std::vector<std::string> warnings;                ///< such as those spills, and `advice`
  std::vector<std::string> advice;                  ///< of the assembler: what it says makes the kernel slow
};

struct CudaObject {
  std::string bytes;                     ///< a cubin; of a PTX target the text with a 0 after it, as drivers want it
  std::vector<CudaKernelFacts> kernels;  ///< by name; none of PTX
};

struct CudaBinary {
  std::vector<CudaObject> objects;  ///< one per source, in their order
  int major = 0, minor = 0;         ///< version of NVRTC
};

/// What NVRTC is given beside the text: part of the cache key and of the report.
std::string nvrtc_command(const ir::Target& target);

/// Compiles each file on its own, equal texts once. The same texts and NVRTC give the same bytes. Requires a CUDA
/// target. E0505: no NVRTC, or one that does not know the target. E0506: it refused the text, or a kernel is beyond the
/// target's limits; the diagnostic holds the first messages and the folder that keeps the sources. E0504: the same for
/// text of the user's; the diagnostic shows the user's line.
Result<CudaBinary> compile_cuda(const std::vector<SourceFile>& sources, const ir::Target& target,
                                const ToolchainOptions& options);

}  // namespace nabla::codegen
