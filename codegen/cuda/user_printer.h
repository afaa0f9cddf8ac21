// Kernels whose code is the user's CUDA: a file of their own each, without our prelude.
#pragma once

#include "codegen/cuda/printer.h"

namespace nabla::codegen {

/// "__device__ void scale(const float* x0, float* y0, int64_t n)": what the user's text must define.
std::string cuda_prototype(const kernel_ir::Kernel& kernel);
/// E0504 at its line where the function is a `__global__` one: a kernel is made of it, which calls it with sizes.
Status require_device_function(const kernel_ir::Kernel& kernel);
/// The whole file: the kernel `symbol`, each thread of which calls the function, the user's text at its own lines, and
/// a check of the function's type. Its grid is the user's.
CudaKernel print_user_cuda(const kernel_ir::Kernel& kernel, const std::string& symbol);

}  // namespace nabla::codegen
