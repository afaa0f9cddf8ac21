// GPU programs of bundles on this machine: the fake driver, with kernels that the emulator runs.
#pragma once

#include <functional>
#include <string>

#include "runtime/base/diagnostic.h"

namespace nabla::emulator {

struct FakeGpuOptions {
  bool beside = false;   ///< beside the bundles of the call before, which otherwise are forgotten
  bool checked = false;  ///< every load and store of every kernel is looked at; a finding ends the run with E0607
  /// Applied to each source before it is compiled: faults for tests of the tests.
  std::function<std::string(std::string)> change = nullptr;
};

/// Compiles the sources of the bundle's GPU programs for the emulator, so that the fake driver finds them by the hashes
/// of the cubins or PTX, and lets programs on GPUs find the driver (NABLA_CUDA_DRIVER, NABLA_FAKE_CUDA and
/// NABLA_FAKE_CUDA_CHECKED) and the fake libraries beside it (NABLA_CUBLASLT, NABLA_CUDNN, NABLA_NCCL), in this process and in
/// those that it starts. E0502 where a source does not compile. E0607 where a kernel cannot be loaded on a GPU of some
/// capability that the code of its program runs on.
Status use_fake_gpu(const std::string& bundle_bytes, const std::string& driver, const FakeGpuOptions& options = {});

}  // namespace nabla::emulator
