#include "frontend/cpp/layers.h"

#include <algorithm>

#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"

namespace nabla::nn {
namespace {

/// The attributes of reduce_window for images; `high` holds what ceil_mode adds to the padding at the end.
struct Windows {
  Ints window = {1, 0, 0, 1}, strides = {1, 0, 0, 1}, low = {0, 0, 0, 0}, high = {0, 0, 0, 0}, dilation = {1, 0, 0, 1};
};

Windows windows_of(const Arg& x, const Pool2d& o, const char* function) {
  const Tensor& t = need_rank(x, 4, function);
  Windows w;
  for (int i = 0; i < 2; ++i) {
    int d = i + 1;
    w.window[d] = o.window[i];
    w.strides[d] = o.stride[i] == 0 ? o.window[i] : o.stride[i];
    w.low[d] = w.high[d] = o.padding[i];
    w.dilation[d] = o.dilation[i];
    if (o.padding[i] < 0 || 2 * o.padding[i] > o.window[i])
      throw error_at(x.site(), Code::kBadAttribute, "{}: padding {} is not within half of the window {}", function,
                     o.padding[i], o.window[i]);
    if (!o.ceil_mode || w.strides[d] < 1) continue;
    int64_t size = t.size(d), reach = (o.window[i] - 1) * o.dilation[i] + 1;
    int64_t rest = size + 2 * o.padding[i] - reach;
    if (rest < 0) continue;
    int64_t outputs = (rest + w.strides[d] - 1) / w.strides[d] + 1;
    if ((outputs - 1) * w.strides[d] >= size + o.padding[i]) --outputs;  // it would begin in the padding at the end
    w.high[d] += std::max<int64_t>(0, (outputs - 1) * w.strides[d] + reach - (size + 2 * o.padding[i]));
  }
  return w;
}

Tensor window_sum(const Tensor& x, const Windows& w) {
  return reduce_window_sum(x, w.window, w.strides, w.low, w.high, w.dilation);
}

/// How many elements each window holds: [1, height', width', 1].
Tensor window_counts(const Tensor& x, const Windows& w, const Pool2d& o) {
  Windows inside = w;
  Shape shape = {1, x.shape()[1], x.shape()[2], 1};
  if (o.count_include_pad)
    for (int d : {1, 2}) {
      shape[d] = shape[d] + 2 * o.padding[d - 1];
      inside.low[d] = 0;
      inside.high[d] = w.high[d] - o.padding[d - 1];
    }
  return window_sum(ones(shape, x.dtype()), inside);
}

}  // namespace

Tensor max_pool2d(const Arg& x, const Pool2d& options) {
  AtSite at(x);
  Windows w = windows_of(x, options, "max_pool2d");
  return reduce_window_max(x, w.window, w.strides, w.low, w.high, w.dilation);
}

Tensor avg_pool2d(const Arg& x, const Pool2d& options) {
  AtSite at(x);
  Windows w = windows_of(x, options, "avg_pool2d");
  Tensor wide = widened(x);
  return in_dtype(window_sum(wide, w) / window_counts(wide, w, options), x.tensor().dtype());
}

Tensor conv2d_transpose(const Arg& x, const Arg& filter, const ConvTranspose2d& o) {
  AtSite at(x);
  const Tensor &t = need_rank(x, 4, "conv2d_transpose"), &f = need_rank(filter, 4, "conv2d_transpose");
  Shape spatial;
  Ints high;
  for (int i = 0; i < 2; ++i) {
    if (o.output_padding[i] < 0 || o.output_padding[i] >= std::max(o.stride[i], o.dilation[i]))
      throw error_at(x.site(), Code::kBadAttribute, "conv2d_transpose: output_padding {} beside stride {}",
                     o.output_padding[i], o.stride[i]);
    int64_t reach = o.dilation[i] * (f.size(i) - 1) + 1;
    spatial.push_back((t.shape()[i + 1] - 1) * o.stride[i] + reach + o.output_padding[i] - 2 * o.padding[i]);
    high.push_back(o.padding[i]);
  }
  return conv_input_grad(x, filter, Ints(o.stride.begin(), o.stride.end()), Ints(o.padding.begin(), o.padding.end()),
                         high, Ints(o.dilation.begin(), o.dilation.end()), spatial, o.groups);
}

// ---- Normalisation

namespace {

/// v [c] under the shape of x; at least f32.
Tensor per_channel(const Arg& v, const Tensor& x) { return broadcast_to(widened(v), x.shape()); }

/// x [n, ..., c] as [parts, n / parts, ..., c].
Tensor in_parts(const Arg& x, int64_t parts) {
  const Tensor& t = x.tensor();
  const ir::Dim& n = t.shape().at(0);
  if (parts < 1 || t.rank() < 2 || !ir::Dim::mod(n, parts).is(0))
    throw error_at(x.site(), Code::kShapeMismatch, "batch_norm: {} parts of equal size of the first dimension of {}", parts,
                   t.type().str());
  Shape split = t.shape();
  split[0] = ir::Dim::floordiv(n, parts);
  split.insert(split.begin(), ir::Dim(parts));
  return reshape(x, split);
}

/// v [parts, c] under the rank of x [parts, n / parts, ..., c]; at least f32.
Tensor per_part(const Arg& v, const Tensor& x) {
  Shape shape(x.rank(), ir::Dim(1));
  shape.front() = v.tensor().shape().at(0);
  shape.back() = v.tensor().shape().at(1);
  return broadcast_to(reshape(widened(v), shape), x.shape());
}

}  // namespace

Tensor group_norm(const Arg& x, const Arg& gamma, const Arg& beta, int64_t groups, double eps) {
  AtSite at(x);
  const Tensor& t = x.tensor();
  if (t.rank() < 2 || groups < 1 || t.size(-1) % groups != 0)
    throw error_at(x.site(), Code::kShapeMismatch, "group_norm: {} groups of the channels of {}", groups,
                   t.type().str());
  Shape split = t.shape();
  split.back() = ir::Dim(groups);
  split.emplace_back(t.size(-1) / groups);
  Tensor parts = reshape(widened(x), split);
  Ints axes;
  for (int d = 1; d < parts.rank(); ++d)
    if (d != parts.rank() - 2) axes.push_back(d);
  Tensor centred = parts - mean(parts, axes, true);
  Tensor normal = centred * rsqrt(mean(centred * centred, axes, true) + eps);
  return in_dtype(reshape(normal, t.shape()) * per_channel(gamma, t) + per_channel(beta, t), t.dtype());
}

BatchNormResult batch_norm_train(const Arg& x, const Arg& gamma, const Arg& beta, double eps, int64_t parts) {
  AtSite at(x);
  if (parts == 0) {
    Tensor t = widened(x);
    Ints axes = ir::iota_ints(t.rank() - 1);
    Tensor centre = mean(t, axes), centred = t - per_channel(centre, t);
    Tensor variance = mean(centred * centred, axes);
    Tensor scale = rsqrt(variance + eps) * widened(gamma);
    return {in_dtype(centred * per_channel(scale, t) + per_channel(beta, t), x.tensor().dtype()), centre, variance};
  }
  Tensor t = in_parts(widened(x), parts);
  Ints axes;
  for (int d = 1; d + 1 < t.rank(); ++d) axes.push_back(d);
  Tensor centre = mean(t, axes), centred = t - per_part(centre, t);
  Tensor variance = mean(centred * centred, axes);
  Tensor scale = rsqrt(variance + eps) * per_channel(gamma, variance);
  Tensor out = reshape(centred * per_part(scale, t) + per_channel(beta, t), x.tensor().shape());
  return {in_dtype(out, x.tensor().dtype()), centre, variance};
}

Tensor batch_norm(const Arg& x, const Arg& gamma, const Arg& beta, const Arg& mean, const Arg& variance, double eps) {
  AtSite at(x);
  bool apart = mean.tensor().rank() == 2;
  Tensor wide = widened(x), t = apart ? in_parts(wide, mean.tensor().size(0)) : wide;
  auto spread = [&](const Arg& v) { return apart ? per_part(v, t) : per_channel(v, t); };
  Tensor scale = rsqrt(widened(variance) + eps) * per_channel(gamma, variance.tensor());
  Tensor out = reshape((t - spread(mean)) * spread(scale) + per_channel(beta, t), x.tensor().shape());
  return in_dtype(out, x.tensor().dtype());
}

BatchNorm::BatchNorm(Program& program, int64_t channels, const std::string& prefix, double momentum, double eps,
                     int64_t parts, Site site)
    : mean_(program.state(prefix + ".mean", f32, parts == 0 ? Shape{channels} : Shape{parts, channels}, site)),
      variance_(program.state(prefix + ".variance", f32, mean_.type().shape, site)),
      momentum_(momentum),
      eps_(eps) {}

void BatchNorm::init(Site site) const {
  mean_.set(Arg(zeros(mean_.type().shape, f32, site), site));
  variance_.set(Arg(ones(variance_.type().shape, f32, site), site));
}

void BatchNorm::update(const Arg& mean, const Arg& variance, double elements) const {
  AtSite at(mean);
  double unbiased = elements > 1 ? elements / (elements - 1) : 1;
  mean_.set(mean_.get(mean.site()) * (1 - momentum_) + mean * momentum_);
  variance_.set(variance_.get(mean.site()) * (1 - momentum_) + variance * (momentum_ * unbiased));
}

Tensor BatchNorm::apply(const Arg& x, const Arg& gamma, const Arg& beta) const {
  AtSite at(x);
  return batch_norm(x, gamma, beta, mean_.get(x.site()), variance_.get(x.site()), eps_);
}

// ---- Attention

Tensor cache_append(const Arg& cache, const Arg& values, const Arg& position, int64_t axis) {
  AtSite at(cache);
  std::vector<Arg> starts(cache.tensor().rank(), Arg(0, cache.site()));
  int64_t place = counted_from_end(axis, cache);
  if (place < 0 || place >= static_cast<int64_t>(starts.size()))
    throw error_at(cache.site(), Code::kBadAttribute, "cache_append: there is no axis {} of {}", axis,
                   cache.tensor().type().str());
  starts[place] = position;
  return dynamic_update_slice(cache, values, starts);
}

Tensor positions_from(const Arg& position, int64_t count) {
  AtSite at(position);
  Tensor start = position.is_tensor() ? convert(position, i32) : full({}, position.number(), i32);
  return iota(Shape{count}, 0, i32) + start;
}

Tensor cache_mask(const Arg& position, int64_t queries, int64_t capacity) {
  AtSite at(position);
  Tensor last = reshape(positions_from(position, queries), Shape{queries, 1});
  return reshape(le(iota(Shape{queries, capacity}, 1, i32), last), Shape{1, 1, queries, capacity});
}

Tensor split_heads(const Arg& x, int64_t heads) {
  AtSite at(x);
  const Tensor& t = need_rank(x, 3, "split_heads");
  if (heads < 1 || t.size(2) % heads != 0)
    throw error_at(x.site(), Code::kShapeMismatch, "split_heads: {} heads of {}", heads, t.type().str());
  return transpose(reshape(x, Shape{t.shape()[0], t.shape()[1], heads, t.size(2) / heads}), {0, 2, 1, 3});
}

Tensor merge_heads(const Arg& x) {
  AtSite at(x);
  const Shape& s = need_rank(x, 4, "merge_heads").shape();
  return reshape(transpose(x, {0, 2, 1, 3}), Shape{s[0], s[2], s[1] * s[3]});
}

}  // namespace nabla::nn
