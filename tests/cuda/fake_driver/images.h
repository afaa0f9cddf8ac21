// What cuModuleLoadData gets: a cubin, or PTX. A driver refuses what its GPU, or itself, is too old for.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "codegen/cuda/cubin.h"

namespace nabla::fake_cuda {

struct Image {
  size_t bytes = 0;
  std::map<std::string, codegen::CubinKernel> kernels;  ///< none of PTX, and of tests' own images
};

/// The driver's status for an image on a GPU of this compute capability (90), by a driver of this version (13000).
int read_image(const void* at, int capability, int version, Image& out);

}  // namespace nabla::fake_cuda
