// Windows that slide over dimensions which ranks share: neighbours exchange the borders that windows reach over.
#include <algorithm>
#include <limits>

#include "passes/shard/rules/families.h"
#include "passes/shard/rules/halo.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Ints;
using ir::Val;

/// Output o reads o * stride + tap * dilation - low, for taps below `size`.
struct Slide {
  int64_t size, stride, dilation, low;
  int64_t span() const { return (size - 1) * dilation; }
};

/// One dimension that is cut: sizes of a rank's part of the input and of the output.
struct SlidingDim {
  size_t dim;   ///< of the input and the output
  size_t slot;  ///< in the attributes
  Axes axes;
  Slide slide;
  int64_t in, out;

  /// What a rank's outputs read.
  Window read() const { return {out * slide.stride, -slide.low, (out - 1) * slide.stride + slide.span() + 1}; }
  /// The outputs that read what a rank has of the input; requires that the stride divides `in`.
  Window readers() const {
    int64_t first = ceil_div(slide.low - slide.span(), slide.stride),
            last = floor_div(in - 1 + slide.low, slide.stride);
    first = std::min(first, floor_div(slide.low, slide.stride));
    return {in / slide.stride, first, last - first + 1};
  }
};

Ints list(const RuleContext& c, const char* name) { return c.n.attrs.get_ints(name); }
int64_t size_of(const ir::Type& t, size_t dim) { return t.shape[dim].value(); }

/// The dimensions from `first` on of which input and output are both cut along the same axes, or could be; nothing
/// where there are none or one does not fit. `axes_of` gives what the operands have.
template <class AxesOf>
std::optional<std::vector<SlidingDim>> dims_along(const RuleContext& c, size_t first, const ir::Type& input,
                                             const ir::Type& output, const Ints& taps, const AxesOf& axes_of) {
  std::vector<SlidingDim> out;
  Ints strides = list(c, "strides"), low = list(c, "padding_low"), dilation = list(c, "dilation");
  for (size_t k = 0; k < taps.size(); ++k) {
    size_t d = first + k;
    bool slides = taps[k] != 1 || strides[k] != 1 || low[k] != 0 || list(c, "padding_high")[k] != 0;
    Axes axes = axes_of(d);
    if (axes.empty() || (first == 0 && !slides)) continue;
    int64_t ranks = shards(c.mesh, axes);
    if (!input.shape[d].is_static() || !output.shape[d].is_static()) return std::nullopt;
    int64_t in = size_of(input, d), o = size_of(output, d);
    if (in % ranks != 0 || o % ranks != 0 || in == 0 || o == 0) return std::nullopt;
    out.push_back({d, k, axes, {taps[k], strides[k], dilation[k], low[k]}, in / ranks, o / ranks});
  }
  if (out.empty()) return std::nullopt;
  return out;
}

Axes taken_by(const std::vector<SlidingDim>& dims) {
  Axes out;
  for (const SlidingDim& a : dims) out.insert(out.end(), a.axes.begin(), a.axes.end());
  return out;
}
Layout with_dims(Layout layout, const std::vector<SlidingDim>& dims) {
  for (const SlidingDim& a : dims) layout.dims[a.dim] = a.axes;
  return layout;
}

/// Bytes for the windows of a tensor whose parts have this layout, and by how much the part grows.
template <class WindowOf, class SizeOf>
double bytes_of_windows(const RuleContext& c, const ir::Type& type, const Layout& layout,
                        const std::vector<SlidingDim>& dims, const WindowOf& window_of, const SizeOf& own) {
  double out = 0, part = bytes_of_part(c, type, layout);
  for (const SlidingDim& a : dims) {
    Window w = window_of(a);
    double slice = part / static_cast<double>(own(a));
    out += slice * static_cast<double>(elements_sent(shards(c.mesh, a.axes), own(a), w));
    part = slice * static_cast<double>(w.count);
  }
  return out;
}

Val windows(const RuleContext& c, Val x, const std::vector<SlidingDim>& dims, Window (SlidingDim::*of)() const,
            const std::optional<Val>& fill = std::nullopt) {
  for (const SlidingDim& a : dims) {
    auto dim = static_cast<int64_t>(a.dim);
    x = fill ? window(c, x, dim, a.axes, (a.*of)(), *fill) : window(c, x, dim, a.axes, (a.*of)());
  }
  return x;
}

/// The attributes for windows that bring their padding along.
ir::Attrs padded_attrs(const RuleContext& c, const std::vector<SlidingDim>& dims) {
  ir::Attrs attrs = c.n.attrs;
  Ints low = list(c, "padding_low"), high = list(c, "padding_high");
  for (const SlidingDim& a : dims) low[a.slot] = high[a.slot] = 0;
  attrs.set("padding_low", low), attrs.set("padding_high", high);
  return attrs;
}

// ---- Convolutions: [N, space.., C], whose filters are [taps.., C, O].

Ints taps_of(const ir::Type& filter) {
  Ints out;
  for (size_t d = 0; d + 2 < filter.shape.size(); ++d)
    out.push_back(filter.shape[d].is_static() ? filter.shape[d].value() : -1);
  return out;
}
bool all_known(const Ints& taps) { return std::find(taps.begin(), taps.end(), -1) == taps.end(); }

/// The axes of a dimension of the first operand, or where it has none those of the second, if the first does not have
/// them elsewhere.
Axes axes_of_either(const RuleContext& c, size_t d) {
  const Layout& first = c.layout(0);
  if (!first.dims[d].empty()) return first.dims[d];
  const Axes& second = c.layout(1).dims[d];
  bool used =
      std::any_of(first.dims.begin(), first.dims.end(), [&](const Axes& a) { return overlap(c.mesh, a, second); });
  return used ? Axes() : second;
}

/// A scalar: zero, or what no maximum is less than.
Val fill_of(const RuleContext& c, DType dtype, bool least) {
  if (!least) return c.b.fill(dtype, {}, 0);
  if (is_float(dtype)) return c.b.fill(dtype, {}, -std::numeric_limits<double>::infinity());
  return c.b.op("reduce_max", {c.b.fill(dtype, {0}, 0)}, {{"axes", Ints{0}}});  // of no elements
}

// The op on a rank's part. Where the result is a share of a sum it has the type of shares.
Val convolve(const RuleContext& c, const char* op, Val x, Val y, const ir::Attrs& attrs, const Layout& out) {
  if (!out.pending.empty()) x = c.share(x), y = c.share(y);
  return c.b.op(op, {x, y}, attrs);
}

}  // namespace

static std::optional<Ruled> convolved(const RuleContext& c) {
  const ir::Type &x = c.op.operands[0], &y = c.op.results[0];
  Ints taps = taps_of(c.op.operands[1]);
  if (!all_known(taps)) return std::nullopt;
  auto dims = dims_along(c, 1, x, y, taps, [&](size_t d) { return c.layout(0).dims[d]; });
  if (!dims) return std::nullopt;
  Split split(c, taken_by(*dims));
  Layout in = with_dims(split.operand(0), *dims), filter = split.operand(1), out = with_dims(split.result(0), *dims);
  double bytes = bytes_of_windows(
      c, x, in, *dims, [](const SlidingDim& a) { return a.read(); }, [](const SlidingDim& a) { return a.in; });
  Ruled ruled{
      {out}, bytes + bytes_brought(c, 0, in) + bytes_brought(c, 1, filter) + bytes_returned(c, 0, out), nullptr};
  ruled.operands = {in, filter}, ruled.shares = true;
  ruled.make = [=, dims = *dims, &c] {
    Val read = windows(c, c.part(0, in), dims, &SlidingDim::read);
    return std::vector<Val>{convolve(c, "convolution", read, c.part(1, filter), padded_attrs(c, dims), out)};
  };
  return ruled;
}

// The input's gradient of a rank's part of the input, from all outputs that read it.
static std::optional<Ruled> convolved_back(const RuleContext& c) {
  const ir::Type &ct = c.op.operands[0], &dx = c.op.results[0];
  Ints taps = taps_of(c.op.operands[1]);
  if (!all_known(taps)) return std::nullopt;
  auto dims = dims_along(c, 1, dx, ct, taps, [&](size_t d) { return c.layout(0).dims[d]; });
  if (!dims) return std::nullopt;
  Ints low = list(c, "padding_low"), high = list(c, "padding_high");
  ir::Shape space = c.n.attrs.get_shape("input_spatial");
  for (const SlidingDim& a : *dims) {
    if (a.in % a.slide.stride != 0) return std::nullopt;
    Window w = a.readers();
    low[a.slot] = a.slide.low - w.first * a.slide.stride;
    int64_t read = (w.count - 1) * a.slide.stride + a.slide.span() + 1;
    high[a.slot] = std::max<int64_t>(0, read - a.in - low[a.slot]);
    if (w.count <= 0) return std::nullopt;
    space[a.slot] = a.in;
  }
  ir::Attrs attrs = c.n.attrs;
  attrs.set("padding_low", low), attrs.set("padding_high", high), attrs.set("input_spatial", space);
  Split split(c, taken_by(*dims));
  Layout in = with_dims(split.operand(0), *dims), filter = split.operand(1), out = with_dims(split.result(0), *dims);
  double bytes = bytes_of_windows(
      c, ct, in, *dims, [](const SlidingDim& a) { return a.readers(); }, [](const SlidingDim& a) { return a.out; });
  Ruled ruled{
      {out}, bytes + bytes_brought(c, 0, in) + bytes_brought(c, 1, filter) + bytes_returned(c, 0, out), nullptr};
  ruled.operands = {in, filter}, ruled.shares = true;
  ruled.make = [=, dims = *dims, &c] {
    Val readers = windows(c, c.part(0, in), dims, &SlidingDim::readers);
    return std::vector<Val>{convolve(c, "conv_input_grad", readers, c.part(1, filter), attrs, out)};
  };
  return ruled;
}

// Every rank sums over its outputs: the sum over ranks is pending.
static std::optional<Ruled> filter_gradient(const RuleContext& c) {
  const ir::Type &x = c.op.operands[0], &ct = c.op.operands[1];
  Ints taps = taps_of(c.op.results[0]);
  if (!all_known(taps)) return std::nullopt;
  auto dims = dims_along(c, 1, x, ct, taps, [&](size_t d) { return axes_of_either(c, d); });
  if (!dims) return std::nullopt;
  Split split(c, taken_by(*dims));
  Layout in = with_dims(split.operand(0), *dims), seeds = with_dims(split.operand(1), *dims), out = split.result(0);
  for (const SlidingDim& a : *dims) out.pending.insert(out.pending.end(), a.axes.begin(), a.axes.end());
  double bytes = bytes_of_windows(
      c, x, in, *dims, [](const SlidingDim& a) { return a.read(); }, [](const SlidingDim& a) { return a.in; });
  Ruled ruled{{out}, bytes + bytes_brought(c, 0, in) + bytes_brought(c, 1, seeds) + bytes_returned(c, 0, out), nullptr};
  ruled.operands = {in, seeds}, ruled.shares = true;
  ruled.make = [=, dims = *dims, &c] {
    Val read = windows(c, c.part(0, in), dims, &SlidingDim::read);
    return std::vector<Val>{convolve(c, "conv_filter_grad", read, c.part(1, seeds), padded_attrs(c, dims), out)};
  };
  return ruled;
}

// ---- Pooling.

static std::optional<Ruled> pooled(const RuleContext& c) {
  const ir::Type &x = c.op.operands[0], &y = c.op.results[0];
  auto dims = dims_along(c, 0, x, y, list(c, "window"), [&](size_t d) { return c.layout(0).dims[d]; });
  if (!dims) return std::nullopt;
  Split split(c, taken_by(*dims));
  Layout out = with_dims(split.result(0), *dims);
  std::vector<Layout> in;
  double bytes = 0;
  for (size_t i = 0; i < c.n.operands.size(); ++i) {
    in.push_back(with_dims(split.operand(i), *dims));
    bytes +=
        bytes_brought(c, i, in[i]) + bytes_of_windows(
                                         c, c.op.operands[i], in[i], *dims, [](const SlidingDim& a) { return a.read(); },
                                         [](const SlidingDim& a) { return a.in; });
  }
  Ruled ruled{{out}, bytes + bytes_returned(c, 0, out), nullptr};
  ruled.operands.assign(in.begin(), in.end());
  ruled.make = [=, dims = *dims, &c] {
    std::vector<Val> operands;
    bool sums = c.n.op->rank_rule == ir::RankRule::kPoolSum;
    for (size_t i = 0; i < in.size(); ++i)
      operands.push_back(
          windows(c, c.part(i, in[i]), dims, &SlidingDim::read, fill_of(c, c.op.operands[i].dtype, i == 0 && !sums)));
    return std::vector<Val>{c.b.op(c.n.op->name, operands, padded_attrs(c, dims))};
  };
  return ruled;
}

// Elements get what the windows that chose them bring: those that reach into a rank's part, with all that they read.
static std::optional<Ruled> scattered_back(const RuleContext& c) {
  const ir::Type &x = c.op.operands[0], &source = c.op.operands[1];
  auto dims = dims_along(c, 0, x, source, list(c, "window"), [&](size_t d) { return axes_of_either(c, d); });
  if (!dims) return std::nullopt;
  for (const SlidingDim& a : *dims)
    if (a.in % a.slide.stride != 0 || a.readers().count <= 0) return std::nullopt;
  auto read = [](const SlidingDim& a) {
    Window w = a.readers();
    return Window{a.in, w.first * a.slide.stride - a.slide.low, (w.count - 1) * a.slide.stride + a.slide.span() + 1};
  };
  Split split(c, taken_by(*dims));
  Layout in = with_dims(split.operand(0), *dims), seeds = with_dims(split.operand(1), *dims);
  double bytes =
      bytes_of_windows(c, x, in, *dims, read, [](const SlidingDim& a) { return a.in; }) +
      bytes_of_windows(
          c, source, seeds, *dims, [](const SlidingDim& a) { return a.readers(); }, [](const SlidingDim& a) { return a.out; });
  Ruled ruled{{in}, bytes + bytes_brought(c, 0, in) + bytes_brought(c, 1, seeds) + bytes_returned(c, 0, in), nullptr};
  ruled.operands = {in, seeds};
  ruled.make = [=, dims = *dims, &c] {
    Val all = c.part(0, in), least = fill_of(c, x.dtype, true);
    for (const SlidingDim& a : dims) all = window(c, all, static_cast<int64_t>(a.dim), a.axes, read(a), least);
    Val from = windows(c, c.part(1, seeds), dims, &SlidingDim::readers);
    Val out = c.b.op("select_and_scatter", {all, from}, padded_attrs(c, dims));
    for (const SlidingDim& a : dims) {
      // A window may end before the part does.
      auto dim = static_cast<int64_t>(a.dim);
      int64_t begin = -read(a).first, have = std::max<int64_t>(0, std::min(a.in, read(a).count - begin));
      out = section(out, dim, begin, have);
      if (have < a.in) out = placed(out, dim, 0, a.in);
    }
    return std::vector<Val>{out};
  };
  return ruled;
}

// ---- Which dimensions lie along the same axes.

namespace {

/// The spatial dimensions of these tensors.
Ties spatial(const ir::TypedOp& op, const std::vector<TensorDim>& tensors) {
  Ties out;
  for (size_t d = 1; d + 1 < op.operands[0].shape.size(); ++d) {
    out.push_back(tensors);
    for (TensorDim& t : out.back()) t.dim = d;
  }
  return out;
}

}  // namespace

static Ties space_and_output(const ir::TypedOp& op) { return spatial(op, {{false, 0, 0}, {true, 0, 0}}); }
static Ties space_and_cotangent(const ir::TypedOp& op) { return spatial(op, {{false, 0, 0}, {false, 1, 0}}); }

std::span<const OpRule> convolution_rules() {
  constexpr const char* kHalo =
      "neighbours send what windows read beyond the borders of a part (permute)";
  using ir::RankRule;
  static const OpRule kRules[] = {
      {RankRule::kConvolution, convolved, space_and_output, kHalo},
      {RankRule::kInputGrad, convolved_back, space_and_output, kHalo},
      {RankRule::kFilterGrad, filter_gradient, space_and_cotangent, kHalo},
      {RankRule::kPoolSum, pooled, same_dims, kHalo},
      {RankRule::kPoolMax, pooled, same_dims, kHalo},
      {RankRule::kPoolGrad, scattered_back, same_dims, kHalo},
  };
  return kRules;
}

}  // namespace nabla::passes
