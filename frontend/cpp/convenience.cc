#include "frontend/cpp/convenience.h"

#include <algorithm>

#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"

namespace nabla {
namespace {

Tensor reduce(const char* op, const char* function, const Arg& x, Ints axes, bool keepdims) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, function);
  axes = axes.empty() ? all_axes(t) : counted_from_end(std::move(axes), x);
  std::sort(axes.begin(), axes.end());
  if (axes.empty()) return t;
  Shape kept = t.shape();
  Tensor out = emit(op, {x}, {{"axes", axes}}, x.site())[0];
  if (!keepdims) return out;
  for (int64_t axis : axes) kept[axis] = ir::Dim(1);
  return reshape(out, kept);
}

Shape batch_shape(const Arg& a, const Arg& b) {
  Shape x(a.tensor().shape().begin(), a.tensor().shape().end() - 2);
  Shape y(b.tensor().shape().begin(), b.tensor().shape().end() - 2);
  if (x.size() < y.size()) std::swap(x, y);
  for (size_t i = 0; i < y.size(); ++i) {
    ir::Dim& d = x[x.size() - y.size() + i];
    if (d.is(1)) d = y[i];
  }
  return x;
}

Tensor with_batch(const Arg& x, Shape batch) {
  const Shape& s = x.tensor().shape();
  batch.insert(batch.end(), s.end() - 2, s.end());
  return broadcast_to(x, batch);
}

void need_per_dimension(const Tensor& x, const Shape& sizes, const Arg& at, const char* function, const char* what) {
  if (sizes.size() != x.shape().size())
    throw error_at(at.site(), Code::kBadAttribute, "{}: {} has {} entries, the operand is {}", function, what,
                   sizes.size(), x.type().str());
}

}  // namespace

Tensor matmul(const Arg& a, const Arg& b) {
  AtSite at(a);
  const Tensor &x = need_tensor(a, "matmul"), &y = need_tensor(b, "matmul");
  if (x.rank() == 0 || y.rank() == 0)
    throw error_at(a.site(), Code::kShapeMismatch, "matmul: a scalar has no columns: {} and {}", x.type().str(),
                   y.type().str());
  if (y.rank() <= 2 || x.rank() == 1) return dot_general(x, y, {x.rank() - 1}, {std::max(0, y.rank() - 2)});
  Shape batch = batch_shape(a, b);
  Ints dims = ir::iota_ints(static_cast<int>(batch.size()));
  int64_t n = static_cast<int64_t>(dims.size());
  return dot_general(with_batch(x, batch), with_batch(y, batch), {n + 1}, {n}, dims, dims);
}

Tensor sum(const Arg& x, Ints axes, bool keepdims) { return reduce("reduce_sum", "sum", x, std::move(axes), keepdims); }
Tensor amax(const Arg& x, Ints axes, bool keepdims) {
  return reduce("reduce_max", "amax", x, std::move(axes), keepdims);
}
Tensor amin(const Arg& x, Ints axes, bool keepdims) {
  return reduce("reduce_min", "amin", x, std::move(axes), keepdims);
}

Tensor mean(const Arg& x, Ints axes, bool keepdims) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "mean");
  if (!is_float(t.dtype()))
    throw error_at(x.site(), Code::kDTypeMismatch, "mean: the operand must be floating, got {}", t.type().str());
  Shape counted;
  for (int64_t axis : axes.empty() ? all_axes(t) : counted_from_end(axes, x)) {
    if (axis < 0 || axis >= t.rank()) t.size(static_cast<int>(axis), x.site());  // says what is wrong
    counted.push_back(t.shape()[axis]);
  }
  ir::Type count(DType::kF64, counted);
  Tensor total = reduce("reduce_sum", "mean", Arg(widened(x), x.site()), std::move(axes), keepdims);
  if (count.is_static()) return in_dtype(total / static_cast<double>(count.count().value()), t.dtype());
  Tensor elements = emit("element_count", {}, {{"shape", counted}, {"dtype", total.dtype()}}, x.site())[0];
  return in_dtype(total / elements, t.dtype());
}

Tensor reshape(const Arg& x, std::initializer_list<int64_t> extents) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "reshape");
  Shape shape;
  ir::Dim known = 1;
  int open = -1;
  for (int64_t e : extents) {
    if (e == -1 && open < 0)
      open = static_cast<int>(shape.size());
    else
      known = known * ir::Dim(e);
    shape.emplace_back(e);
  }
  if (open >= 0) {
    if (known.is(0) || !ir::Dim::mod(t.type().count(), known).is(0))
      throw error_at(x.site(), Code::kShapeMismatch, "reshape: the {} elements of {} do not divide by {}",
                     t.type().count().str(), t.type().str(), known.str());
    shape[open] = ir::Dim::floordiv(t.type().count(), known);
  }
  return reshape(x, std::move(shape));
}

Tensor broadcast_to(const Arg& x, const Shape& shape) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "broadcast_to");
  if (t.shape() == shape) return t;
  if (t.shape().size() > shape.size())
    throw error_at(x.site(), Code::kShapeMismatch, "broadcast_to: {} has a larger rank than {}", t.type().str(),
                   ir::str(shape));
  Ints dims;
  for (size_t i = shape.size() - t.shape().size(); i < shape.size(); ++i) dims.push_back(static_cast<int64_t>(i));
  return broadcast_in_dim(x, shape, dims);
}

Tensor transpose(const Arg& x) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "transpose");
  if (t.rank() < 2)
    throw error_at(x.site(), Code::kShapeMismatch, "transpose: the operand needs two dimensions, got {}",
                   t.type().str());
  Ints order = all_axes(t);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(x, order);
}

Tensor conv2d(const Arg& x, const Arg& filter, int64_t stride, int64_t padding, int64_t dilation, int64_t groups) {
  AtSite at(x);
  need_rank(x, 4, "conv2d");
  need_rank(filter, 4, "conv2d");
  return convolution(x, filter, {stride, stride}, {padding, padding}, {padding, padding}, {dilation, dilation}, groups);
}

Tensor max_pool2d(const Arg& x, int64_t window, int64_t stride) {
  AtSite at(x);
  need_rank(x, 4, "max_pool2d");
  int64_t s = stride == 0 ? window : stride;
  return reduce_window_max(x, {1, window, window, 1}, {1, s, s, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}, {1, 1, 1, 1});
}

Tensor avg_pool2d(const Arg& x, int64_t window, int64_t stride) {
  AtSite at(x);
  need_rank(x, 4, "avg_pool2d");
  int64_t s = stride == 0 ? window : stride;
  Tensor sums =
      reduce_window_sum(widened(x), {1, window, window, 1}, {1, s, s, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}, {1, 1, 1, 1});
  return in_dtype(sums / static_cast<double>(window * window), x.tensor().dtype());
}

Tensor one_hot(const Arg& labels, int64_t classes, DType dtype) {
  AtSite at(labels);
  Tensor t = need_tensor(labels, "one_hot");
  // The classes are counted in the dtype of the labels, and i8 would not hold class 128.
  if (bytes_of(t.dtype()) < 4) t = in_dtype(t, is_float(t.dtype()) ? DType::kF32 : DType::kI32);
  Shape wide = t.shape();
  wide.emplace_back(1);
  Shape all = t.shape();
  all.emplace_back(classes);
  return convert(eq(reshape(t, wide), iota(all, t.rank(), t.dtype())), dtype);
}

Tensor full(const Shape& shape, double value, DType dtype, Site site) {
  AtSite at(site);
  return broadcast_to(constant(Literal::scalar(dtype, value)), shape);
}
Tensor zeros(const Shape& shape, DType dtype, Site site) { return full(shape, 0, dtype, site); }
Tensor ones(const Shape& shape, DType dtype, Site site) { return full(shape, 1, dtype, site); }
Tensor zeros_like(const Arg& x) {
  const Tensor& t = need_tensor(x, "zeros_like");
  return full(t.shape(), 0, t.dtype(), x.site());
}

Tensor fold_in(const Arg& key, uint32_t n) {
  AtSite at(key);
  return rng_fold_in(key, constant(Literal::scalar_int(DType::kU32, n)));
}

Tensor fold_in(const Arg& key, const Tensor& n) {
  AtSite at(key);
  return rng_fold_in(key, convert(n, DType::kU32));
}

Tensor slice(const Arg& x, const Shape& starts, const Shape& limits) {
  AtSite at(x);
  Tensor out = need_tensor(x, "slice");
  need_per_dimension(out, starts, x, "slice", "starts");
  need_per_dimension(out, limits, x, "slice", "limits");
  size_t rank = starts.size();
  Ints low(rank, 0), high(rank, -1);
  bool fixed = false;
  for (size_t d = 0; d < rank; ++d)
    if (starts[d].is_static() && limits[d].is_static()) {
      low[d] = starts[d].value(), high[d] = limits[d].value();
      fixed = fixed || low[d] != 0 || high[d] != -1;
    }
  if (fixed) out = slice({out, x.site()}, low, high, Ints(rank, 1));
  for (size_t d = 0; d < rank; ++d) {
    if (starts[d].is_static() && limits[d].is_static()) continue;
    ir::Dim limit = limits[d].is(-1) ? out.shape()[d] : limits[d];
    out = section({out, x.site()}, static_cast<int64_t>(d), Shape{starts[d], limit - starts[d]});
  }
  return out;
}

Tensor pad(const Arg& x, const Arg& value, const Shape& low, const Shape& high) {
  AtSite at(x);
  Tensor out = need_tensor(x, "pad");
  need_per_dimension(out, low, x, "pad", "low");
  need_per_dimension(out, high, x, "pad", "high");
  size_t rank = low.size();
  Ints before(rank, 0), behind(rank, 0);
  bool fixed = false;
  for (size_t d = 0; d < rank; ++d) {
    if (low[d].is_static()) before[d] = low[d].value();
    if (high[d].is_static()) behind[d] = high[d].value();
    fixed = fixed || before[d] != 0 || behind[d] != 0;
  }
  if (fixed) out = pad({out, x.site()}, value, before, behind, Ints(rank, 0));
  Tensor element = value.is_tensor() ? value.tensor() : full({}, value.number(), out.dtype(), x.site());
  for (size_t d = 0; d < rank; ++d) {
    auto more = [&](const ir::Dim& size) {
      Shape shape = out.shape();
      shape[d] = size;
      return broadcast_to({element, x.site()}, shape);
    };
    if (!low[d].is_static()) out = concatenate({more(low[d]), out}, static_cast<int64_t>(d), x.site());
    if (!high[d].is_static()) out = concatenate({out, more(high[d])}, static_cast<int64_t>(d), x.site());
  }
  return out;
}

}  // namespace nabla
