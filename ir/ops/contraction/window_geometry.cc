#include "ir/ops/contraction/window_geometry.h"

#include <algorithm>

namespace nabla::ops {

using kernel_ir::Expr;

namespace {
bool surely_less(const Dim& a, const Dim& b) { return Dim::less_equal(a + 1, b).value_or(false); }
}  // namespace

Windows windows_from(const Attrs& attrs, const Shape& sizes) {
  const Ints &strides = attrs.get_ints("strides"), &low = attrs.get_ints("padding_low");
  const Ints &high = attrs.get_ints("padding_high"), &dilation = attrs.get_ints("dilation");
  Windows out;
  for (size_t d = 0; d < sizes.size(); ++d) out.push_back({sizes[d], strides[d], low[d], high[d], dilation[d]});
  return out;
}

Status check_windows(const InferContext& ctx, size_t count, std::string_view constraint) {
  for (const char* name : {"strides", "padding_low", "padding_high", "dilation"}) {
    const Ints& list = ctx.attrs.get_ints(name);
    if (list.size() != count)
      return ctx.fail(Code::kBadAttribute, constraint, "{} has {} entries, expected {}", name, list.size(), count);
    int64_t least = name[0] == 'p' ? 0 : 1;
    for (int64_t v : list)
      if (v < least) return ctx.fail(Code::kBadAttribute, constraint, "{} holds {}, below {}", name, v, least);
  }
  return Ok{};
}

Dim output_extent(const Dim& in, const WindowDim& w) {
  Dim span = (w.size - 1) * w.dilation + 1;
  Dim out = Dim::floordiv(in + w.low + w.high - span, w.stride) + 1;
  return out.bounds().min >= 0 ? out : Dim::max(out, 0);
}

Shape output_extents(const Attrs& attrs, const Shape& space, const Shape& taps) {
  Windows windows = windows_from(attrs, taps);
  Shape out;
  for (size_t d = 0; d < space.size(); ++d) out.push_back(output_extent(space[d], windows[d]));
  return out;
}

TapRange outputs_of_tap(const WindowDim& w, int64_t tap, int64_t in, int64_t out) {
  int64_t shift = tap * w.dilation - w.low;  // output o reads o * stride + shift
  TapRange range;
  range.first = shift < 0 ? (w.stride - 1 - shift) / w.stride : 0;
  int64_t end = shift < in ? std::min(out, (in - 1 - shift) / w.stride + 1) : 0;
  range.count = std::max<int64_t>(0, end - range.first);
  range.at = range.first * w.stride + shift;
  return range;
}

Expr both_guards(Expr a, Expr b) {
  if (!a) return b;
  return b ? kernel_ir::both(a, b) : a;
}

Tap forward_tap(Expr o, Expr w, const WindowDim& window, const Dim& in, const Dim& out) {
  Tap tap;
  tap.index = o * kernel_ir::index(window.stride) + w * kernel_ir::index(window.dilation);
  if (window.low) tap.index = tap.index - kernel_ir::index(window.low);
  if (window.low > 0) tap.guard = kernel_ir::ge(tap.index, kernel_ir::index(0));
  Dim last = (out - 1) * window.stride + (window.size - 1) * window.dilation - window.low;
  if (window.high > 0 && !surely_less(last, in))
    tap.guard = both_guards(tap.guard, kernel_ir::lt(tap.index, kernel_ir::dim(in)));
  return tap;
}

Tap backward_tap(Expr i, Expr w, const WindowDim& window, const Dim& in, const Dim& out) {
  Tap tap;
  Expr t = i + kernel_ir::index(window.low);
  if (!window.size.is(1)) t = t - w * kernel_ir::index(window.dilation);
  if (window.stride > 1) tap.guard = kernel_ir::eq(kernel_ir::mod(t, window.stride), kernel_ir::index(0));
  tap.index = kernel_ir::floordiv(t, window.stride);
  if (!surely_less((window.size - 1) * window.dilation, Dim(window.low) + 1))
    tap.guard = both_guards(tap.guard, kernel_ir::ge(tap.index, kernel_ir::index(0)));
  if (!surely_less(Dim::floordiv(in - 1 + window.low, window.stride), out))
    tap.guard = both_guards(tap.guard, kernel_ir::lt(tap.index, kernel_ir::dim(out)));
  return tap;
}

Expr load_under(const TypedOp& op, int k, std::vector<Expr> indices, Expr guard, Expr fill) {
  if (!guard) return load_operand(op, k, std::move(indices));
  return kernel_ir::guarded_load(op.operands[k].dtype, k, std::move(indices), guard, fill);
}

}  // namespace nabla::ops
