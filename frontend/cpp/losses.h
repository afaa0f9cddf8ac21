// Losses. Each is per element or per row; take the mean of it. Losses of floats of 16 and 8 bits are f32, because f16
// holds no square above 65504 and bf16 no sum of many small terms.
#pragma once

#include "frontend/cpp/array.h"

namespace nabla::nn {

Tensor mse(const Arg& x, const Arg& target);
Tensor l1(const Arg& x, const Arg& target);
/// Quadratic below delta, linear beyond; its slope is at most delta.
Tensor huber(const Arg& x, const Arg& target, double delta = 1);
/// Binary cross-entropy of logits against targets in [0, 1], without overflow.
Tensor bce_with_logits(const Arg& logits, const Arg& target);
/// Binary cross-entropy of probabilities; logarithms stop at -100, as PyTorch's.
Tensor bce(const Arg& probability, const Arg& target);
/// Per row (the last axis): sum of p (log p - log q) from log_q and probabilities p; where p is 0 the term is 0.
Tensor kl_divergence(const Arg& log_q, const Arg& p);
/// Per row: cross_entropy of logits against integer labels, with `smoothing` of the weight spread over all classes.
Tensor smooth_cross_entropy(const Arg& logits, const Arg& labels, double smoothing);
/// Per row: minus the sum of target * log_softmax(logits), for targets that are distributions.
Tensor soft_cross_entropy(const Arg& logits, const Arg& target);
/// Per row: x . y / max(|x| |y|, eps).
Tensor cosine_similarity(const Arg& x, const Arg& y, double eps = 1e-8);
/// Per row, for labels 1 and -1: 1 - cos, or max(0, cos - margin).
Tensor cosine_embedding(const Arg& x, const Arg& y, const Arg& label, double margin = 0);
Tensor hinge(const Arg& x, const Arg& label);
/// max(0, |anchor - positive| - |anchor - negative| + margin) per row, by Euclidean distance.
Tensor triplet(const Arg& anchor, const Arg& positive, const Arg& negative, double margin = 1);

}  // namespace nabla::nn
