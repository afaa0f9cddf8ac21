// A convolution as cuDNN describes it: N, C, spatial..., of any strides; a filter K, C/groups, taps....
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"

namespace nabla::fake_cudnn {

using Ints = std::vector<int>;

/// cudnnTensorDescriptor_t
struct Tensor {
  int type = -1;
  Ints sizes, strides;
  /// Bytes from the first element to past the last.
  uint64_t bytes() const;
};

/// cudnnFilterDescriptor_t: packed, with the channels as the fastest (1: NHWC) or as the second dimension (0: NCHW).
struct Filter {
  int type = -1, format = -1;
  Ints sizes;
  Tensor as_tensor() const;
};

/// cudnnConvolutionDescriptor_t
struct Windows {
  Ints padding, strides, dilation;
  int mode = -1, compute = -1, groups = 1, math = 0;
};

enum Kind : int { kForward, kBackwardData, kBackwardFilter };

/// One call; pointers are device addresses.
struct Problem {
  Kind kind = kForward;
  Tensor x, y;
  Filter w;
  Windows windows;
  const void *px = nullptr, *pw = nullptr, *py = nullptr;
  int delay_ms = 0;  ///< that the GPU idles

  /// What the manual forbids; empty: nothing.
  std::string fault() const;
  /// Sums of f32, by factors of tf32 where the arithmetic allows them.
  void compute() const;
};

/// Of a cudnnDataType_t; false: none of those that are known here.
bool dtype_of(int type, DType& out);

}  // namespace nabla::fake_cudnn
