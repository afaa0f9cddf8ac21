// Where a window that slides over a dimension reads: shared by pooling and convolution.
#pragma once

#include "ir/ops/movement/strided.h"

namespace nabla::ops {

/// A window along one dimension. Output o reads, with tap w in [0, size), operand position
/// o * stride + w * dilation - low; positions outside the operand are padding.
struct WindowDim {
  Dim size = 1;
  int64_t stride = 1, low = 0, high = 0, dilation = 1;
  /// Output o reads operand position o alone.
  bool trivial() const { return size.is(1) && stride == 1 && low == 0 && high == 0; }
};
using Windows = std::vector<WindowDim>;

/// One window per entry of `sizes`, with the attributes strides, padding_low, padding_high and dilation.
Windows windows_from(const Attrs& attrs, const Shape& sizes);
/// E0204 unless those attributes have `count` entries each, strides and dilation are positive, and padding is not
/// negative.
Status check_windows(const InferContext& ctx, size_t count, std::string_view constraint);
/// How many outputs there are; 0 where the window does not fit.
Dim output_extent(const Dim& in, const WindowDim& window);
/// The same for every dimension of `space`, with windows of the sizes `taps` and the attributes of `windows_from`.
Shape output_extents(const Attrs& attrs, const Shape& space, const Shape& taps);

/// One access along one dimension.
struct Tap {
  kernel_ir::Expr index;  ///< in range where the guard holds
  kernel_ir::Expr guard;  ///< null: always in range
};
/// The operand position that output `o` reads with tap `w`.
Tap forward_tap(kernel_ir::Expr o, kernel_ir::Expr w, const WindowDim& window, const Dim& in, const Dim& out);
/// The output that reads operand position `i` with tap `w`.
Tap backward_tap(kernel_ir::Expr i, kernel_ir::Expr w, const WindowDim& window, const Dim& in, const Dim& out);
/// Both conditions; null stands for true.
kernel_ir::Expr both_guards(kernel_ir::Expr a, kernel_ir::Expr b);
/// Operand `k` at `indices` under `guard` (null: always), with `fill` elsewhere.
kernel_ir::Expr load_under(const TypedOp& op, int k, std::vector<kernel_ir::Expr> indices, kernel_ir::Expr guard,
                           kernel_ir::Expr fill);

/// The outputs that read the operand with one tap, along one dimension: [first, first + count), and what `first` reads.
struct TapRange {
  int64_t first = 0, count = 0, at = 0;
};
TapRange outputs_of_tap(const WindowDim& window, int64_t tap, int64_t in, int64_t out);

/// Calls f(tap, nest) for every tap in row-major order: the nest walks the outputs that do not read padding with it,
/// and what they read; arrays are outputs and operand, of which `o` and `in` are the extents in the windows'
/// dimensions.
template <class F>
void for_each_tap(const Windows& windows, const Extents& in, const Extents& o, F f) {
  Extents sizes;
  for (const WindowDim& w : windows) sizes.push_back(w.size.value());
  for_each_index(sizes, [&](const Extents& tap, int64_t position) {
    Nest<2> nest{{}, {strides_of(o), strides_of(in)}, {}};
    for (size_t d = 0; d < in.size(); ++d) {
      TapRange range = outputs_of_tap(windows[d], tap[d], in[d], o[d]);
      nest.shape.push_back(range.count);
      nest.first[0] += range.first * nest.strides[0][d];
      nest.first[1] += range.at * nest.strides[1][d];
      nest.strides[1][d] *= windows[d].stride;
    }
    f(position, nest);
  });
}

}  // namespace nabla::ops
