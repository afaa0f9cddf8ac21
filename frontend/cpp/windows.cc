#include "frontend/cpp/windows.h"

#include <algorithm>
#include <cmath>

#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"

namespace nabla {
namespace {

// ---- Other sizes

/// Weights of the pixels at offset -1, 0, 1 and 2 from the one below a point, which lies `t` after it.
std::array<double, 4> weights_at(const std::string& method, double t) {
  if (method == "nearest") return {0, t < 0.5 ? 1.0 : 0.0, t < 0.5 ? 0.0 : 1.0, 0};
  if (method == "linear") return {0, 1 - t, t, 0};
  constexpr double a = -0.75;
  auto near = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  auto far = [](double d) { return ((d - 5) * d + 8) * d * a - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

/// One axis: four taps, the pixels and weights of which follow from the sizes alone.
Tensor resized_axis(const Tensor& x, int axis, int64_t to, const Resize& o) {
  int64_t from = x.size(axis);
  Literal places[4], weights[4];
  for (int k = 0; k < 4; ++k) places[k] = Literal(DType::kI32, {to}), weights[k] = Literal(DType::kF64, {to});
  for (int64_t i = 0; i < to; ++i) {
    double ratio = o.align_corners ? (to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0)
                                   : static_cast<double>(from) / static_cast<double>(to);
    double point = o.align_corners ? static_cast<double>(i) * ratio : (static_cast<double>(i) + 0.5) * ratio - 0.5;
    double below = std::floor(point);
    std::array<double, 4> w = weights_at(o.method, point - below);
    for (int k = 0; k < 4; ++k) {
      int64_t place = static_cast<int64_t>(below) + k - 1;
      places[k].set_i(i, std::clamp<int64_t>(place, 0, from - 1));
      weights[k].set(i, w[static_cast<size_t>(k)]);
    }
  }
  if (o.method == "nearest") {
    for (int64_t i = 0; i < to; ++i)
      if (weights[2].get(i) == 1) places[1].set_i(i, places[2].get_i(i));
    return take(x, constant(places[1]), axis);
  }
  Shape along(x.rank(), ir::Dim(1));
  along[static_cast<size_t>(axis)] = ir::Dim(to);
  Tensor out;
  for (int k = o.method == "cubic" ? 0 : 1; k < (o.method == "cubic" ? 4 : 3); ++k) {
    Tensor share = reshape(constant(weights[k].converted(x.dtype())), along);
    Tensor part = take(x, constant(places[k]), axis) * share;
    out = out.has_value() ? out + part : part;
  }
  return out;
}

void need_image(const Arg& x, int64_t height, int64_t width, const char* function) {
  if (need_tensor(x, function).rank() != 4 || height < 1 || width < 1)
    throw error_at(x.site(), Code::kShapeMismatch, "{}: {} to {} by {}", function, x.tensor().type().str(), height,
                   width);
}

}  // namespace

Tensor resize(const Arg& x, Ints axes, const Ints& sizes, const Resize& options) {
  AtSite at(x);
  if (!x.is_tensor()) throw error_at(x.site(), Code::kMisuse, "resize: the operand is a number");
  if (options.method != "nearest" && options.method != "linear" && options.method != "cubic")
    throw error_at(x.site(), Code::kBadAttribute,
                   "resize: method \"{}\", expected \"nearest\", \"linear\" or \"cubic\"", options.method);
  if (axes.size() != sizes.size())
    throw error_at(x.site(), Code::kBadAttribute, "resize: {} axes and {} sizes", axes.size(), sizes.size());
  DType dtype = x.tensor().dtype();
  Tensor out = widened(x);
  // The weights of neighbours are fractions. A conversion moves what cubic weights put out of range to the nearest end.
  bool rounded = !is_float(dtype) && options.method != "nearest";
  if (rounded) out = in_dtype(out, bytes_of(dtype) < 4 ? DType::kF32 : DType::kF64);
  axes = counted_from_end(std::move(axes), x);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= out.rank() || sizes[i] < 1 || out.size(static_cast<int>(axes[i])) < 1)
      throw error_at(x.site(), Code::kShapeMismatch, "resize: axis {} of {} to {} elements", axes[i],
                     x.tensor().type().str(), sizes[i]);
    out = resized_axis(out, static_cast<int>(axes[i]), sizes[i], options);
  }
  return in_dtype(rounded ? round(out) : out, dtype);
}

Tensor resize_nearest(const Arg& x, int64_t height, int64_t width) {
  AtSite at(x);
  need_image(x, height, width, "resize_nearest");
  Tensor out = x.tensor();
  int64_t to[] = {height, width};
  for (int axis : {1, 2}) {
    int64_t from = out.size(axis);
    Tensor index =
        div(iota(Shape{to[axis - 1]}, 0, i64) * static_cast<double>(from), static_cast<double>(to[axis - 1]));
    out = take(out, index, axis);
  }
  return out;
}

Tensor resize_bilinear(const Arg& x, int64_t height, int64_t width) {
  AtSite at(x);
  need_image(x, height, width, "resize_bilinear");
  return resize(x, {1, 2}, {height, width});
}

// ---- Patches

namespace {

/// How many windows fit along an image's dimension.
int64_t windows_along(int64_t size, const Patches& o, int i, const Arg& x, const char* function) {
  int64_t reach = o.dilation[i] * (o.window[i] - 1) + 1, rest = size + 2 * o.padding[i] - reach;
  if (o.window[i] < 1 || o.stride[i] < 1 || o.dilation[i] < 1 || o.padding[i] < 0 || rest < 0)
    throw error_at(x.site(), Code::kShapeMismatch,
                   "{}: no window of {} taps, stride {}, dilation {}, padding {} fits {} pixels", function, o.window[i],
                   o.stride[i], o.dilation[i], o.padding[i], size);
  return rest / o.stride[i] + 1;
}

}  // namespace

Tensor unfold(const Arg& x, const Patches& o) {
  AtSite at(x);
  const Tensor& t = need_rank(x, 4, "unfold");
  int64_t count[2] = {windows_along(t.size(1), o, 0, x, "unfold"), windows_along(t.size(2), o, 1, x, "unfold")};
  Ints margin = {0, o.padding[0], o.padding[1], 0};
  Tensor padded = pad(x, zeros({}, t.dtype()), margin, margin, Ints(4, 0));
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < o.window[0]; ++i) {
    std::vector<Tensor> taps;
    for (int64_t j = 0; j < o.window[1]; ++j) {
      int64_t low[2] = {i * o.dilation[0], j * o.dilation[1]};
      Ints starts = {0, low[0], low[1], 0}, limits = {-1, 0, 0, -1}, strides = {1, o.stride[0], o.stride[1], 1};
      for (int d = 0; d < 2; ++d) limits[static_cast<size_t>(d) + 1] = low[d] + (count[d] - 1) * o.stride[d] + 1;
      taps.push_back(slice(padded, starts, limits, strides));
    }
    rows.push_back(stack(taps, 3, x.site()));
  }
  return stack(rows, 3, x.site());
}

Tensor fold(const Arg& patches, int64_t height, int64_t width, const Patches& o) {
  AtSite at(patches);
  const Tensor& t = need_rank(patches, 6, "fold");
  int64_t size[2] = {height, width};
  for (int d = 0; d < 2; ++d) {
    int64_t count = windows_along(size[d], o, d, patches, "fold");
    if (t.size(d + 1) != count || t.size(d + 3) != o.window[d])
      throw error_at(patches.site(), Code::kShapeMismatch, "fold: {} for {} windows of {} taps in dimension {}",
                     t.type().str(), count, o.window[d], d + 1);
  }
  Tensor sum;
  for (int64_t i = 0; i < o.window[0]; ++i)
    for (int64_t j = 0; j < o.window[1]; ++j) {
      Tensor tap = squeeze(slice_axis(slice_axis(patches, 3, i, i + 1), 4, j, j + 1), {3, 4});
      Ints low = {0, i * o.dilation[0] - o.padding[0], j * o.dilation[1] - o.padding[1], 0}, high = {0, 0, 0, 0};
      for (size_t d = 0; d < 2; ++d)
        high[d + 1] = size[d] - low[d + 1] - ((t.size(static_cast<int>(d) + 1) - 1) * o.stride[d] + 1);
      Tensor placed = pad(tap, zeros({}, t.dtype()), low, high, {0, o.stride[0] - 1, o.stride[1] - 1, 0});
      sum = sum.has_value() ? sum + placed : placed;
    }
  return sum;
}

// ---- Convolution

namespace {

Tensor convolved(const Arg& x, const Arg& filter, int spatial, int64_t stride, int64_t padding, int64_t dilation,
                 int64_t groups, const char* function) {
  AtSite at(x);
  need_rank(x, spatial + 2, function);
  need_rank(filter, spatial + 2, function);
  auto all = [&](int64_t v) { return Ints(static_cast<size_t>(spatial), v); };
  return convolution(x, filter, all(stride), all(padding), all(padding), all(dilation), groups);
}

}  // namespace

Tensor conv1d(const Arg& x, const Arg& filter, int64_t stride, int64_t padding, int64_t dilation, int64_t groups) {
  return convolved(x, filter, 1, stride, padding, dilation, groups, "conv1d");
}
Tensor conv3d(const Arg& x, const Arg& filter, int64_t stride, int64_t padding, int64_t dilation, int64_t groups) {
  return convolved(x, filter, 3, stride, padding, dilation, groups, "conv3d");
}

}  // namespace nabla
