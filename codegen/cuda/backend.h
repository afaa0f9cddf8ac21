// Kernels to CUDA sources for one target.
#pragma once

#include <vector>

#include "codegen/cuda/printer.h"
#include "codegen/toolchain.h"
#include "ir/module.h"
#include "ir/target.h"

namespace nabla::codegen {

struct CudaCode {
  std::vector<SourceFile> sources;  ///< complete: each carries the prelude
  struct Kernel {
    size_t source;  ///< which source holds its grids
    std::vector<CudaGrid> grids;
  };
  std::vector<Kernel> kernels;  ///< in the order given
};

/// Prints every kernel of a planned module once, about a dozen to a source: one compiler run costs what a kernel costs, and runs go side by
/// side. E0504 at a function of the user that is `__global__`.
Result<CudaCode> print_cuda(const ir::Module& module, const ir::Target& target);

}  // namespace nabla::codegen
