// Where a window that slides over a dimension reads: shared by pooling and convolution.
#pragma once

#include "ir/ops/common.h"

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

/// One element of the operand that one output reads.
struct Contact {
  const Extents& tap;
  int64_t position;  ///< of the element in its (row-major) operand dimensions
};
/// Calls f(contact) for every tap of output `o` that is not padding, in row-major order of the taps. All sizes are
/// static; `in` are the operand's extents in the windows' dimensions.
template <class F>
void for_each_contact(const Windows& windows, const Extents& in, const Extents& o, F f) {
  Extents sizes, at(in.size());
  for (const WindowDim& w : windows) sizes.push_back(w.size.value());
  for_each_index(sizes, [&](const Extents& tap, int64_t) {
    for (size_t d = 0; d < in.size(); ++d) {
      at[d] = o[d] * windows[d].stride + tap[d] * windows[d].dilation - windows[d].low;
      if (at[d] < 0 || at[d] >= in[d]) return;
    }
    f(Contact{tap, position_of(at, in)});
  });
}

}  // namespace nabla::ops
