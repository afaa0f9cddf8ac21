// A convolution or one of its gradients as the libraries' problem.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"

namespace nabla {

enum class ConvolutionKind : uint8_t { kForward, kInputGrad, kFilterGrad };

/// Input N,spatial...,C; filter spatial...,C/groups,O; output N,spatial...,O. In memory the filter of "cudnn" lies as
/// O,spatial...,C/groups.
struct ConvolutionSpec {
  ConvolutionKind kind = ConvolutionKind::kForward;
  DType dtype = DType::kF32;
  std::vector<int64_t> input_shape, filter_shape, output_shape;
  std::vector<int64_t> strides, dilations, padding_low, padding_high;
  int64_t groups = 1;
  std::string implementation;  ///< "direct" of oneDNN, "cudnn"
  /// Of oneDNN: room for the filter in the layout that the primitive prefers. Without enough of it the primitive works
  /// on the plain filter, which is slower. Of cuDNN: what the call may use.
  uint64_t workspace_bytes = 0;
  // Of cuDNN only:
  bool tf32 = false;        ///< the factors of an f32 convolution may be rounded to tf32
  int64_t alignment = 256;  ///< of every operand's address
  auto operator<=>(const ConvolutionSpec&) const = default;

  /// "convolution f32 forward 64x8x8x1 3x3x1x16 64x6x6x16 stride 1,1 pad 0,0": the shapes of input, filter and output,
  /// and, where they are not 1, the dilation and the groups. Of the padding only that before the input is part of it: that
  /// at its end follows from the shapes. The key of tuning files.
  std::string key() const;
  /// Multiplications and additions.
  double flops() const;
};

}  // namespace nabla
