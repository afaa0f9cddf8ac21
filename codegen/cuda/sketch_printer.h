// Prints kernels as scalar CUDA C++. A sketch of the second backend: right, deterministic and readable, not fast.
#pragma once

#include <string>
#include <vector>

#include "ir/kernel_ir/kernel.h"

namespace nabla::codegen {

/// One `__global__` function. Launches of a kernel run one after the other, in any grid: threads walk the work in
/// strides of the grid.
struct CudaLaunch {
  std::string symbol;
  int64_t threads = 1;  ///< iterations that may run at the same time; more threads would idle
};

struct CudaKernel {
  std::string text;                  ///< without the prelude
  std::vector<CudaLaunch> launches;  ///< each takes a pointer per buffer, in the order of Kernel::buffers
};

/// The kernel as one launch per parallel statement. Axes that several iterations of a combining store share are
/// walked by one thread in order, so that results do not depend on the grid; integers, where order does not matter,
/// are combined by atomics. A kernel that cannot be cut runs on one thread. Requires static extents.
CudaKernel print_cuda(const kernel_ir::Kernel& kernel);

/// What the text above is written in. It needs no header under NVRTC.
const char* cuda_prelude();

}  // namespace nabla::codegen
