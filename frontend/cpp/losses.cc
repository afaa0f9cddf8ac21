#include "frontend/cpp/losses.h"

#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"

namespace nabla::nn {
namespace {

Tensor at_least(const Tensor& x, double bound) { return maximum(x, bound); }

Tensor distance(const Arg& x, const Arg& y) {
  Tensor d = x - y;
  return sqrt(sum(d * d, {-1}) + 1e-12);  // differentiable where x and y are equal
}

/// An operand of a loss in the dtype that the loss is computed in; a number stays.
Arg wide(const Arg& x) { return x.is_tensor() ? Arg(widened(x), x.site()) : x; }

// log(x), at least -100, and -100 without a slope where x is 0: the slope of log would be infinite there, and NaN times a weight of 0.
Tensor bounded_log(const Tensor& log_of_others, const Tensor& zero) {
  return select(zero, full(log_of_others.shape(), -100, log_of_others.dtype()), at_least(log_of_others, -100));
}

}  // namespace

Tensor mse(const Arg& x, const Arg& target) {
  AtSite at(x);
  return square(wide(x) - wide(target));
}

Tensor l1(const Arg& x, const Arg& target) {
  AtSite at(x);
  return abs(wide(x) - wide(target));
}

Tensor huber(const Arg& x, const Arg& target, double delta) {
  AtSite at(x);
  Tensor d = wide(x) - wide(target), size = abs(d);
  return select(le(size, delta), d * d * 0.5, delta * (size - 0.5 * delta));
}

Tensor bce_with_logits(const Arg& logits, const Arg& target) {
  AtSite at(logits);
  return softplus(wide(logits)) - wide(logits) * wide(target);
}

Tensor bce(const Arg& probability, const Arg& target) {
  AtSite at(probability);
  Tensor p = widened(probability);
  Arg t = wide(target);
  Tensor zero = eq(p, 0), one = eq(p, 1);
  Tensor yes = bounded_log(log(select(zero, full(p.shape(), 1, p.dtype()), p)), zero);
  Tensor no = bounded_log(log1p(-select(one, zeros_like(p), p)), one);
  return -(t * yes + (1 - t) * no);
}

Tensor kl_divergence(const Arg& log_q, const Arg& p) {
  AtSite at(log_q);
  Tensor positive = gt(p, 0), safe = select(positive, wide(p), 1);
  return sum(select(positive, safe * (log(safe) - wide(log_q)), 0 * safe), {-1});
}

Tensor smooth_cross_entropy(const Arg& logits, const Arg& labels, double smoothing) {
  AtSite at(logits);
  if (!(smoothing >= 0 && smoothing < 1))
    throw error_at(logits.site(), Code::kBadAttribute, "smooth_cross_entropy: smoothing {} is not in [0, 1)",
                   smoothing);
  Tensor rows = widened(logits), exact = cross_entropy(rows, labels);
  if (smoothing == 0) return exact;
  return exact * (1 - smoothing) + (logsumexp(rows, -1) - mean(rows, {-1})) * smoothing;
}

Tensor soft_cross_entropy(const Arg& logits, const Arg& target) {
  AtSite at(logits);
  // A class of probability 0 that has no weight adds 0, and not 0 times infinity.
  Tensor log_p = log_softmax(widened(logits), -1);
  Tensor impossible = eq(target, 0) & is_inf(log_p);
  return -sum(wide(target) * select(impossible, zeros_like(log_p), log_p), {-1});
}

Tensor cosine_similarity(const Arg& x, const Arg& y, double eps) {
  AtSite at(x);
  Tensor a = widened(x), b = widened(y);
  Tensor lengths = sqrt(at_least(sum(a * a, {-1}) * sum(b * b, {-1}), eps * eps));
  return sum(a * b, {-1}) / lengths;
}

Tensor cosine_embedding(const Arg& x, const Arg& y, const Arg& label, double margin) {
  AtSite at(x);
  Tensor cosine = cosine_similarity(x, y);
  return select(gt(label, 0), 1 - cosine, at_least(cosine - margin, 0));
}

Tensor hinge(const Arg& x, const Arg& label) {
  AtSite at(x);
  return at_least(1 - wide(x) * wide(label), 0);
}

Tensor triplet(const Arg& anchor, const Arg& positive, const Arg& negative, double margin) {
  AtSite at(anchor);
  Arg from = wide(anchor);
  return at_least(distance(from, wide(positive)) - distance(from, wide(negative)) + margin, 0);
}

}  // namespace nabla::nn
