// Prints kernels as CUDA C++ over the prelude: what to launch, and the text of it.
#pragma once

#include <string>
#include <vector>

#include "ir/kernel_ir/kernel.h"
#include "ir/kernel_ir/tensor_map.h"

namespace nabla::codegen {

/// One `__global__` function and its launch. Any number of blocks is right: they walk the work in strides of the grid.
struct CudaGrid {
  std::string symbol;
  ir::Dim blocks = 1;    ///< at least 1; of one dimension, as the blocks are
  int threads = 256;     ///< per block, exactly
  int shared_bytes = 0;  ///< dynamic shared memory per block
  int beside = 1;        ///< blocks that one multiprocessor is to hold: a bound on registers
  std::vector<kernel_ir::TensorMap> maps = {};  ///< CUtensorMaps of buffers, parameters after all others
};

struct CudaKernel {
  std::string text;  ///< without the prelude
  std::vector<CudaGrid>
      grids;                ///< run one after the other; each takes a pointer per buffer in the order of
                            ///< Kernel::buffers and, where sizes are symbolic, one to the values of symbols_of(kernel)
  bool procedures = false;  ///< the text calls templates of cuda_procedures()
};

/// The kernel as the grids of its CUDA schedule. `at_packs`: all its arrays begin at multiples of 16 bytes, so that nothing has to
/// ask.
CudaKernel print_cuda(const kernel_ir::Kernel& kernel, const std::string& symbol, bool at_packs = false);

/// What the text above is written in. It needs no header under NVRTC.
const char* cuda_prelude();
/// The templates of procedures, after the prelude.
std::string cuda_procedures();

}  // namespace nabla::codegen
