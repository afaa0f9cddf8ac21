// Images and sequences by windows: other sizes, columns of patches, convolution in one and three dimensions.
#pragma once

#include <array>
#include <string>

#include "frontend/cpp/array.h"

namespace nabla {

struct Resize {
  /// "nearest" (the pixel whose centre is nearest; "nearest-exact" in PyTorch), "linear", or "cubic" (Keys, 1981, with
  /// a = -3/4).
  std::string method = "linear";
  /// Corners of both images coincide; otherwise their edges do (half-pixel centres).
  bool align_corners = false;
};
/// x with these static `axes` stretched to these sizes, one axis after the other. Beyond the edge the last pixel
/// counts. Floats of 16 bits are computed in f32, integers in floats and rounded to the nearest integer of their dtype.
Tensor resize(const Arg& x, Ints axes, const Ints& sizes, const Resize& options = {});
/// Images [n, height, width, c] of another size, by the nearest pixel or bilinearly between pixel centres (half-pixel
/// coordinates, as align_corners=False in PyTorch).
Tensor resize_nearest(const Arg& x, int64_t height, int64_t width);
Tensor resize_bilinear(const Arg& x, int64_t height, int64_t width);

struct Patches {
  std::array<int64_t, 2> window = {2, 2};
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};   ///< of zeros, on both sides
  std::array<int64_t, 2> dilation = {1, 1};  ///< distance of neighbouring taps
};
/// The windows of x [n, height, width, c] (im2col): [n, height', width', taps, taps, c].
Tensor unfold(const Arg& x, const Patches& options);
/// The transpose of unfold: patches added up where they lie in an image [n, height, width, c].
Tensor fold(const Arg& patches, int64_t height, int64_t width, const Patches& options);

/// x [n, length, c], filter [taps, c / groups, out]; zeros around x. -> [n, length', out]
Tensor conv1d(const Arg& x, const Arg& filter, int64_t stride = 1, int64_t padding = 0, int64_t dilation = 1,
              int64_t groups = 1);
/// x [n, depth, height, width, c], filter [taps, taps, taps, c / groups, out]. -> [n, depth', height', width', out]
Tensor conv3d(const Arg& x, const Arg& filter, int64_t stride = 1, int64_t padding = 0, int64_t dilation = 1,
              int64_t groups = 1);

}  // namespace nabla
