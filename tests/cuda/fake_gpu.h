// GPU programs of bundles on this machine: the fake driver, with kernels that the emulator runs.
#pragma once

#include <string>

#include "runtime/base/diagnostic.h"

namespace nabla::emulator {

/// Compiles the sources of the bundle's GPU programs for the emulator, so that the fake driver finds them by the hashes
/// of the cubins, and lets programs on GPUs find the driver (NABLA_CUDA_DRIVER, NABLA_FAKE_CUDA) and the fake library
/// beside it (NABLA_CUBLASLT), in this process and in those that it starts. E0502 where a source does not compile.
Status use_fake_gpu(const std::string& bundle_bytes, const std::string& driver);

}  // namespace nabla::emulator
