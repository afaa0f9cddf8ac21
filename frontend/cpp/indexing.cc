#include "frontend/cpp/indexing.h"

#include <utility>

#include "frontend/cpp/control_flow.h"
#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"

namespace nabla {
namespace {

/// a < b with NaN as the largest number.
Tensor before(const Tensor& a, const Tensor& b) {
  if (!is_float(a.dtype())) return lt(a, b);
  return lt(a, b) | (is_nan(b) & !is_nan(a));
}

/// The dimension lists of index vectors [..., k] into x.
struct Vectors {
  Ints window, chosen, sizes;
  int64_t vector_dim = 0;
};
Vectors vectors_of(const Arg& x, const Arg& indices, const char* function) {
  const Tensor &t = need_tensor(x, function), &i = need_tensor(indices, function);
  int64_t k = i.rank() == 0 ? 0 : i.size(-1);
  if (k < 1 || k > t.rank())
    throw error_at(indices.site(), Code::kShapeMismatch, "{}: indices {} into {}: expected [..., k] with k in [1, {}]",
                   function, i.type().str(), t.type().str(), t.rank());
  Vectors v;
  v.vector_dim = i.rank() - 1;
  for (int64_t d = 0; d < t.rank(); ++d) {
    v.sizes.push_back(d < k ? 1 : -1);
    if (d < k)
      v.chosen.push_back(d);
    else
      v.window.push_back(v.vector_dim + d - k);
  }
  return v;
}

}  // namespace

Tensor searchsorted(const Arg& sorted, const Arg& values, bool right) {
  AtSite at(sorted);
  const Tensor &s = need_tensor(sorted, "searchsorted"), &v = need_tensor(values, "searchsorted");
  if (s.rank() < 1 || s.rank() != v.rank() || s.dtype() != v.dtype())
    throw error_at(sorted.site(), Code::kShapeMismatch, "searchsorted: {} in {}", v.type().str(), s.type().str());
  int64_t n = s.size(-1), steps = 0;
  while ((int64_t{1} << steps) <= n) ++steps;
  Tensor none = zeros(v.shape(), i32);
  if (n == 0) return none;
  // The answer is in [low, high]; once they meet, steps change nothing.
  auto halve = [&](Tensor, std::pair<Tensor, Tensor> range) {
    auto [low, high] = range;
    Tensor middle = div(low + high, 2);
    Tensor there = take_along_axis(s, middle, -1);
    Tensor beyond = (right ? !before(v, there) : before(there, v)) & lt(low, high);
    return std::pair(select(beyond, middle + 1, low), select(beyond, high, middle));
  };
  return fori_loop(0, steps, halve, std::pair(none, full(v.shape(), static_cast<double>(n), i32)), sorted.site()).first;
}

Tensor gather_nd(const Arg& x, const Arg& indices) {
  AtSite at(x);
  Vectors v = vectors_of(x, indices, "gather_nd");
  return gather(x, indices, v.window, v.chosen, v.chosen, v.vector_dim, v.sizes);
}
Tensor scatter_nd(const Arg& x, const Arg& indices, const Arg& updates) {
  AtSite at(x);
  Vectors v = vectors_of(x, indices, "scatter_nd");
  return scatter_set(x, indices, updates, v.window, v.chosen, v.chosen, v.vector_dim);
}
Tensor scatter_nd_add(const Arg& x, const Arg& indices, const Arg& updates) {
  AtSite at(x);
  Vectors v = vectors_of(x, indices, "scatter_nd_add");
  return scatter_add(x, indices, updates, v.window, v.chosen, v.chosen, v.vector_dim);
}

Tensor masked_scatter(const Arg& x, const Arg& mask, const Arg& source) {
  AtSite at(x);
  const Tensor &t = need_tensor(x, "masked_scatter"), &m = need_tensor(mask, "masked_scatter");
  if (m.shape() != t.shape() || m.dtype() != DType::kBool)
    throw error_at(mask.site(), Code::kShapeMismatch, "masked_scatter: a mask {} for {}, expected bool of its shape",
                   m.type().str(), t.type().str());
  Tensor flat = reshape(m, Shape{t.type().count()});
  Tensor order = maximum(cumsum(convert(flat, i32), 0) - 1, 0);
  Tensor from = reshape(source, Shape{need_tensor(source, "masked_scatter").type().count()});
  return select(m, reshape(take(from, order), t.shape()), t);
}

Tensor gumbel(const Arg& key, const Shape& shape, DType dtype) {
  AtSite at(key);
  // rng_uniform draws from [0, 1): a 0 counts as half of the smallest step, so that both logarithms are finite.
  Tensor u = maximum(rng_uniform(key, shape, dtype), dtype == DType::kF64 ? 0x1p-54 : 0x1p-25);
  return -log(-log(u));
}

Tensor categorical(const Arg& key, const Arg& logits, int64_t axis) {
  AtSite at(logits);
  const Tensor& t = need_tensor(logits, "categorical");
  return argmax(t + gumbel(key, t.shape(), t.dtype()), counted_from_end(axis, logits));
}

Tensor permutation(const Arg& key, int64_t n) {
  AtSite at(key);
  return argsort({rng_bits(key, Shape{n})}, 0);
}

}  // namespace nabla
