// A convolution or one of its gradients as the libraries' problem.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/problem.h"

namespace nabla {

enum class ConvolutionKind : uint8_t { kForward, kInputGrad, kFilterGrad };
std::span<const std::string_view> names_of(ConvolutionKind);  ///< "forward", "input_grad", "filter_grad"
std::string_view name_of(ConvolutionKind kind);

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

  /// The shapes of input, filter and output, and, where they are not 1, the dilation and the groups. Of the padding
  /// only that before the input is part of the key: that at its end follows from the shapes.
  static constexpr std::string_view kKind = "convolution";
  static constexpr auto fields() {
    using P = ConvolutionSpec;
    return std::tuple{in_key("dtype", &P::dtype, " "),
                      in_key("kind", &P::kind, " "),
                      in_key("input_shape", &P::input_shape, " "),
                      in_key("filter_shape", &P::filter_shape, " "),
                      in_key("output_shape", &P::output_shape, " "),
                      in_key("strides", &P::strides, " stride ", ","),
                      in_key("padding_low", &P::padding_low, " pad ", ","),
                      in_key_unless_one("dilations", &P::dilations, " dilation "),
                      in_key_unless_one("groups", &P::groups, " groups "),
                      beside_key("padding_high", &P::padding_high),
                      in_key_of_call("tf32", &P::tf32, "tf32")};
  }
  /// Dilations of 1, and the least padding at the end of which the output follows. False where the ranks of the shapes
  /// and windows differ, a shape is empty, or an extent is larger than any array.
  bool complete();
  /// "convolution f32 forward 64x8x8x1 3x3x1x16 64x6x6x16 stride 1,1 pad 0,0"
  std::string key() const { return problem_key(*this); }
  /// Multiplications and additions.
  double flops() const;
};

}  // namespace nabla
