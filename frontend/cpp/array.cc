#include "frontend/cpp/array.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"

namespace nabla {
namespace {

int64_t need_axis(int64_t axis, const Arg& x, const char* function) {
  int rank = need_tensor(x, function).rank();
  int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank)
    throw error_at(x.site(), Code::kBadAttribute, "{}: there is no axis {} of {}", function, axis,
                   x.tensor().type().str());
  return at;
}

Tensor scalar(DType dtype, double value) { return constant(Literal::scalar(dtype, value)); }

/// The axes counted from the start, ascending; all where none are named.
Ints named_axes(Ints axes, const Arg& x) {
  axes = axes.empty() ? all_axes(x.tensor()) : counted_from_end(std::move(axes), x);
  std::sort(axes.begin(), axes.end());
  return axes;
}

Tensor reduced(const char* op, const char* function, const Arg& x, Ints axes, bool keepdims) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, function);
  axes = named_axes(std::move(axes), x);
  Tensor out = emit(op, {x}, {{"axes", axes}}, x.site())[0];
  if (!keepdims) return out;
  Shape kept = t.shape();
  for (int64_t axis : axes) kept[axis] = ir::Dim(1);
  return reshape(out, kept);
}

Tensor truth(const Arg& x, const char* function) {
  const Tensor& t = need_tensor(x, function);
  return t.dtype() == DType::kBool ? t : ne(t, zeros_like(t));
}

/// 0, 1, ... along an axis of `shape`.
Tensor positions(const Shape& shape, int64_t axis, DType dtype = DType::kI64) { return iota(shape, axis, dtype); }

/// Where column - row of the last two dimensions is at most (`below`) or at least k.
Tensor triangle(const Tensor& x, int64_t k, bool below, const Arg& from, const char* function) {
  if (x.rank() < 2)
    throw error_at(from.site(), Code::kShapeMismatch, "{}: the operand needs two dimensions, got {}", function,
                   x.type().str());
  Shape plane(x.shape().end() - 2, x.shape().end());
  Tensor difference = positions(plane, 1) - positions(plane, 0);
  return broadcast_to(below ? le(difference, k) : ge(difference, k), x.shape());
}

}  // namespace

// ---- Elementwise

Tensor clip(const Arg& x, const Arg& low, const Arg& high) {
  AtSite at(x);
  need_tensor(x, "clip");
  return clamp(low, x, high);
}

Tensor mod(const Arg& a, const Arg& b) {
  AtSite at(a);
  Tensor r = rem(a, b);
  Tensor zero = zeros_like(r);
  // The truncating remainder has the sign of a: where it is on the other side of zero than b, b is added.
  return select(ne(r, zero) & (lt(r, zero) != lt(r * 0 + b, zero)), r + b, r);
}

Tensor floor_divide(const Arg& a, const Arg& b) {
  AtSite at(a);
  Tensor q = a / b;
  Tensor r = rem(a, b), zero = zeros_like(r), divisor = b + zero;
  auto below = ne(r, zero) & (lt(r, zero) != lt(divisor, zero));
  if (!is_float(q.dtype())) return select(ne(divisor, zero) & below, q - 1, q);
  // From the exact remainder: the quotient is rounded, 1 / 0.1 to 10 where nine tenths fit, and -1 / inf to -0.
  Tensor whole = round((a + zero - r) / divisor);
  return select(eq(divisor, zero), q, select(below, whole - 1, whole));
}

Tensor square(const Arg& x) { return x * x; }

Tensor softplus(const Arg& x) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "softplus");
  // Both sides of 0 have one formula, whose derivatives agree at 0: those of max and abs would not.
  Tensor zero = zeros_like(t);
  auto positive = ge(t, zero);
  return select(positive, t, zero) + log1p(exp(select(positive, -t, t)));
}

Tensor log_sigmoid(const Arg& x) {
  AtSite at(x);
  return -softplus(-need_tensor(x, "log_sigmoid"));
}

Tensor leaky_relu(const Arg& x, double slope) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "leaky_relu");
  return select(gt(t, 0), t, t * slope);
}

Tensor elu(const Arg& x, double alpha) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "elu");
  // Where x is positive the other branch must not overflow: its derivative would be NaN. (minimum would halve the slope at 0.)
  auto positive = gt(t, 0);
  return select(positive, t, alpha * expm1(select(positive, zeros_like(t), t)));
}

Tensor selu(const Arg& x) {
  AtSite at(x);
  return 1.0507009873554805 * elu(x, 1.6732632423543772);
}

Tensor mish(const Arg& x) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "mish");
  // Above 20, mish(x) rounds to x in every dtype. The general formula would overflow in the derivatives of large x.
  auto large = gt(t, 20);
  Tensor rest = select(large, zeros_like(t), t);
  return select(large, t, rest * tanh(softplus(rest)));
}

Tensor hard_sigmoid(const Arg& x) {
  AtSite at(x);
  return clip(x + 3, 0, 6) / 6;
}

Tensor hard_swish(const Arg& x) {
  AtSite at(x);
  return x * hard_sigmoid(x);
}

Tensor digamma(const Arg& x) { return polygamma(x, 0); }
Tensor zeta(const Arg& exponent, const Arg& start) {
  AtSite at(exponent);
  const Tensor& like = start.is_tensor() ? start.tensor() : need_tensor(exponent, "zeta");
  Tensor x = exponent.is_tensor() ? exponent.tensor() : scalar(like.dtype(), exponent.number());
  Tensor q = start.is_tensor() ? start.tensor() : scalar(like.dtype(), start.number());
  // Bernoulli numbers B2, B4, ... divided by the factorials of 2, 4, ...
  constexpr double kTerms[] = {
      1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000, 1.0 / 74724249600};
  constexpr int kSteps = 12;
  Tensor sum = pow(q, -x), y = q + kSteps;
  for (int k = 1; k < kSteps; ++k) sum = sum + pow(q + k, -x);
  Tensor power = pow(y, -x), rising = x / y;
  sum = sum + power * (y / (x - 1) + 0.5);
  for (int j = 0; j < static_cast<int>(std::size(kTerms)); ++j) {
    sum = sum + power * rising * kTerms[j];
    rising = rising * (x + (2 * j + 1)) * (x + (2 * j + 2)) / (y * y);
  }
  return sum;
}
Tensor bessel_i0(const Arg& x) {
  AtSite at(x);
  return exp(abs(x)) * bessel_i0e(x);
}
Tensor bessel_i1(const Arg& x) {
  AtSite at(x);
  return exp(abs(x)) * bessel_i1e(x);
}

// ---- Statistics

Tensor var(const Arg& x, Ints axes, bool keepdims, int64_t ddof) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "var");
  axes = named_axes(std::move(axes), x);
  double count = 1;
  for (int64_t axis : axes) count *= static_cast<double>(t.size(static_cast<int>(axis)));
  Tensor wide = widened(x), centred = wide - mean(wide, axes, true);
  return in_dtype(sum(centred * centred, axes, keepdims) / (count - static_cast<double>(ddof)), t.dtype());
}
Tensor stddev(const Arg& x, Ints axes, bool keepdims, int64_t ddof) {
  AtSite at(x);
  if (!x.is_tensor()) return var(x, std::move(axes), keepdims, ddof);  // says what is wrong
  return in_dtype(root_of_squares(var(widened(x), std::move(axes), keepdims, ddof)), x.tensor().dtype());
}
Tensor prod(const Arg& x, Ints axes, bool keepdims) {
  return reduced("reduce_prod", "prod", x, std::move(axes), keepdims);
}
Tensor all(const Arg& x, Ints axes, bool keepdims) {
  AtSite at(x);
  return reduced("reduce_and", "all", truth(x, "all"), std::move(axes), keepdims);
}
Tensor any(const Arg& x, Ints axes, bool keepdims) {
  AtSite at(x);
  return reduced("reduce_or", "any", truth(x, "any"), std::move(axes), keepdims);
}
std::pair<Tensor, Tensor> minmax(const Arg& x) { return {amin(x), amax(x)}; }

// ---- Shape

Tensor unsqueeze(const Arg& x, int64_t axis) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "unsqueeze");
  int64_t place = axis < 0 ? axis + t.rank() + 1 : axis;
  if (place < 0 || place > t.rank())
    throw error_at(x.site(), Code::kBadAttribute, "unsqueeze: no place {} in {}", axis, t.type().str());
  Shape shape = t.shape();
  shape.insert(shape.begin() + place, ir::Dim(1));
  return reshape(x, shape);
}

Tensor squeeze(const Arg& x, Ints axes) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "squeeze");
  bool named = !axes.empty();
  for (int64_t& axis : axes) axis = need_axis(axis, x, "squeeze");
  Shape shape;
  for (int d = 0; d < t.rank(); ++d) {
    bool here = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (here && !t.shape()[d].is(1))
      throw error_at(x.site(), Code::kShapeMismatch, "squeeze: dimension {} of {} is not 1", d, t.type().str());
    if (!(named ? here : t.shape()[d].is(1))) shape.push_back(t.shape()[d]);
  }
  return reshape(x, shape);
}

Tensor moveaxis(const Arg& x, int64_t from, int64_t to) {
  AtSite at(x);
  from = need_axis(from, x, "moveaxis"), to = need_axis(to, x, "moveaxis");
  Ints order = all_axes(x.tensor());
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return transpose(x, order);
}

Tensor flatten(const Arg& x, int64_t first, int64_t last) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "flatten");
  if (t.rank() == 0) return reshape(x, Shape{1});
  first = need_axis(first, x, "flatten"), last = need_axis(last, x, "flatten");
  Shape shape(t.shape().begin(), t.shape().begin() + first);
  ir::Dim extent(1);
  for (int64_t d = first; d <= last; ++d) extent = extent * t.shape()[d];
  shape.push_back(extent);
  shape.insert(shape.end(), t.shape().begin() + last + 1, t.shape().end());
  return reshape(x, shape);
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t axis, Site site) {
  AtSite at(site);
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors) parts.push_back(unsqueeze(Arg(t, site), axis));
  return concatenate(Args(parts, site), axis < 0 ? axis + parts.at(0).rank() : axis);
}

Tensor slice_axis(const Arg& x, int64_t axis, int64_t start, int64_t stop) {
  AtSite at(x);
  axis = need_axis(axis, x, "slice_axis");
  const Tensor& t = x.tensor();
  if (start < 0) start += t.size(static_cast<int>(axis));
  if (stop < 0) stop += t.size(static_cast<int>(axis));
  Ints starts(t.rank(), 0), limits(t.rank(), -1), strides(t.rank(), 1);
  starts[axis] = start, limits[axis] = stop;
  return slice(x, starts, limits, strides);
}

std::vector<Tensor> split(const Arg& x, int64_t parts, int64_t axis) {
  AtSite at(x);
  axis = need_axis(axis, x, "split");
  int64_t extent = x.tensor().size(static_cast<int>(axis));
  if (parts < 1 || extent % parts != 0)
    throw error_at(x.site(), Code::kShapeMismatch, "split: {} parts of the {} elements along axis {}", parts, extent,
                   axis);
  std::vector<Tensor> out;
  for (int64_t i = 0; i < parts; ++i)
    out.push_back(slice_axis(x, axis, i * (extent / parts), (i + 1) * (extent / parts)));
  return out;
}

std::vector<Tensor> unbind(const Arg& x, int64_t axis) {
  AtSite at(x);
  axis = need_axis(axis, x, "unbind");
  std::vector<Tensor> out;
  for (int64_t i = 0; i < x.tensor().size(static_cast<int>(axis)); ++i)
    out.push_back(squeeze(slice_axis(x, axis, i, i + 1), {axis}));
  return out;
}

namespace {

/// Every dimension d as a pair, the second (or the first) of which is repeated, and merged again.
Tensor repeated(const Arg& x, const Ints& times, bool whole, const char* function) {
  const Tensor& t = need_tensor(x, function);
  if (static_cast<int>(times.size()) != t.rank())
    throw error_at(x.site(), Code::kBadAttribute, "{}: {} counts for {}", function, times.size(), t.type().str());
  Shape wide, merged;
  Ints dims;
  for (int d = 0; d < t.rank(); ++d) {
    if (times[d] < 0) throw error_at(x.site(), Code::kBadAttribute, "{}: {} repetitions", function, times[d]);
    dims.push_back(2 * d + (whole ? 1 : 0));
    wide.push_back(whole ? ir::Dim(times[d]) : t.shape()[d]);
    wide.push_back(whole ? t.shape()[d] : ir::Dim(times[d]));
    merged.push_back(t.shape()[d] * times[d]);
  }
  return reshape(broadcast_in_dim(x, wide, dims), merged);
}

}  // namespace

Tensor tile(const Arg& x, const Ints& times) {
  AtSite at(x);
  return repeated(x, times, true, "tile");
}

Tensor repeat(const Arg& x, int64_t times, int64_t axis) {
  AtSite at(x);
  Ints all(need_tensor(x, "repeat").rank(), 1);
  all[need_axis(axis, x, "repeat")] = times;
  return repeated(x, all, false, "repeat");
}

Tensor arange(double start, double stop, double step, DType dtype, Site site) {
  AtSite at(site);
  if (step == 0) throw error_at(site, Code::kBadAttribute, "arange: the step is 0");
  int64_t n = std::max<int64_t>(0, static_cast<int64_t>(std::ceil((stop - start) / step)));
  return positions({n}, 0, dtype) * step + start;
}

Tensor hann_window(int64_t n, bool periodic, Site site) {
  AtSite at(site);
  double period = static_cast<double>(std::max<int64_t>(1, periodic ? n : n - 1));
  return 0.5 - 0.5 * cos(positions({n}, 0, DType::kF32) * (2 * std::numbers::pi / period));
}

// ---- Triangles

Tensor tril(const Arg& x, int64_t k) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "tril");
  return select(triangle(t, k, true, x, "tril"), t, zeros_like(t));
}
Tensor triu(const Arg& x, int64_t k) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "triu");
  return select(triangle(t, k, false, x, "triu"), t, zeros_like(t));
}
Tensor tril_mask(int64_t rows, int64_t columns, int64_t k, Site site) {
  AtSite at(site);
  return le(positions({rows, columns}, 1) - positions({rows, columns}, 0), k);
}

// ---- Order and selection

namespace {

// A gather wants an element to read, also where the axis may be empty and nothing is read: one that no position names.
Tensor with_an_element(const Arg& x, int64_t axis) {
  const Tensor& t = x.tensor();
  if (t.shape()[axis].bounds().min > 0) return t;
  Shape one = t.shape();
  one[axis] = 1;
  return concatenate({t, zeros(one, t.dtype())}, axis);
}

}  // namespace

Tensor sort(const Arg& x, int64_t axis, bool descending) {
  AtSite at(x);
  axis = need_axis(axis, x, "sort");
  return take_along_axis(with_an_element(x, axis), argsort({x}, axis, descending), axis);
}

std::vector<Tensor> sort(const std::vector<Tensor>& tensors, int keys, int64_t axis, bool descending, Site site) {
  AtSite at(site);
  if (keys < 1 || keys > static_cast<int>(tensors.size()))
    throw error_at(site, Code::kBadAttribute, "sort: {} keys among {} tensors", keys, tensors.size());
  axis = need_axis(axis, Arg(tensors[0], site), "sort");
  std::vector<Tensor> first(tensors.begin(), tensors.begin() + keys), out;
  Tensor order = argsort(Args(first, site), axis, descending);
  for (const Tensor& t : tensors) out.push_back(take_along_axis(with_an_element(t, axis), order, axis));
  return out;
}

namespace {

Ints others(const Arg& x, int64_t axis) {
  Ints out = all_axes(x.tensor());
  out.erase(out.begin() + axis);
  return out;
}

}  // namespace

Tensor take_along_axis(const Arg& x, const Arg& positions, int64_t axis) {
  AtSite at(x);
  axis = need_axis(axis, x, "take_along_axis");
  int64_t rank = x.tensor().rank();
  return gather(x, positions, {}, {axis}, {axis}, rank, Ints(rank, 1), others(x, axis), others(x, axis));
}

Tensor add_along_axis(const Arg& x, const Arg& positions, const Arg& updates, int64_t axis) {
  AtSite at(x);
  axis = need_axis(axis, x, "add_along_axis");
  return scatter_add(x, positions, updates, {}, {axis}, {axis}, x.tensor().rank(), others(x, axis), others(x, axis));
}

Tensor take(const Arg& x, const Arg& positions, int64_t axis) {
  AtSite at(x);
  axis = need_axis(axis, x, "take");
  int64_t inserted = need_tensor(positions, "take").rank();
  Ints offsets, sizes(x.tensor().rank(), -1);
  sizes[axis] = 1;
  for (int64_t d = 0; d < x.tensor().rank(); ++d)
    if (d != axis) offsets.push_back(d < axis ? d : d - 1 + inserted);
  return gather(x, positions, offsets, {axis}, {axis}, inserted, sizes);
}

namespace {

/// Row-major numbers, i32 [size], of the first elements that are true; -1 after them.
Tensor true_places(const Tensor& x, int64_t size) {
  ir::Dim count = x.type().count();
  Tensor flat = reshape(x, Shape{count});
  Tensor place = cumsum(convert(flat, i32), 0) - 1;
  // Elements that are false are sent out of range, where a scatter drops them.
  Tensor to = select(flat, place, full({count}, static_cast<double>(size), i32));
  return scatter_set(full({size}, -1, i32), to, positions({count}, 0, i32), {}, {0}, {0}, 1);
}

}  // namespace

Tensor nonzero(const Arg& x, int64_t size, int32_t fill) {
  AtSite at(x);
  Tensor places = true_places(truth(x, "nonzero"), size);
  std::vector<Tensor> columns;
  ir::Dim inner(1);
  for (int d = x.tensor().rank() - 1; d >= 0; --d) {
    int64_t extent = std::max<int64_t>(1, x.tensor().size(d)), below = inner.value();
    Tensor column = rem(div(places, below), extent);
    columns.insert(columns.begin(), select(lt(places, 0), full({size}, fill, i32), column));
    inner = inner * extent;
  }
  if (columns.empty()) return zeros({size, 0}, i32);
  return stack(columns, 1);
}

Tensor masked_select(const Arg& x, const Arg& mask, int64_t size, const Arg& fill) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "masked_select");
  if (need_tensor(mask, "masked_select").shape() != t.shape())
    throw error_at(x.site(), Code::kShapeMismatch, "masked_select: a mask {} for {}", mask.tensor().type().str(),
                   t.type().str());
  Tensor places = true_places(truth(mask, "masked_select"), size);
  Tensor chosen = take(reshape(x, Shape{t.type().count()}), places);
  Tensor other = fill.is_tensor() ? fill.tensor() : scalar(t.dtype(), fill.number());
  return select(lt(places, 0), broadcast_to(other, {size}), chosen);
}

// ---- Random

Tensor bernoulli(const Arg& key, const Shape& shape, double p) {
  AtSite at(key);
  return lt(rng_uniform(key, shape), p);
}

Tensor dropout(const Arg& x, const Arg& key, double rate) {
  AtSite at(x);
  const Tensor& t = need_tensor(x, "dropout");
  if (!(rate >= 0 && rate < 1))
    throw error_at(x.site(), Code::kBadAttribute, "dropout: rate {} is not in [0, 1)", rate);
  if (rate == 0) return t;
  return select(bernoulli(key, t.shape(), 1 - rate), t * (1 / (1 - rate)), zeros_like(t));
}

Tensor randint(const Arg& key, const Shape& shape, int64_t low, int64_t high) {
  AtSite at(key);
  if (high <= low || high - low > INT32_MAX)
    throw error_at(key.site(), Code::kBadAttribute, "randint: no integers, or too many, in [{}, {})", low, high);
  // The remainder of 64 random bits: of 32 bits, low numbers of a span of 3 * 2^29 would come half as often again.
  Shape words = shape;
  words.push_back(2);
  std::vector<Tensor> halves = unbind(rng_bits(key, words), static_cast<int64_t>(shape.size()));
  Tensor bits = convert(halves[1], u64) * 4294967296.0 + convert(halves[0], u64);
  return convert(rem(bits, high - low), i32) + low;
}

}  // namespace nabla
