// Reading and writing at computed places, search in sorted rows, and draws that choose.
#pragma once

#include "frontend/cpp/array.h"

namespace nabla {

/// Where values [..., m] would be inserted into sorted rows [..., n] so that these stay sorted, as i32 [..., m]: before
/// equal elements, or after them where `right`. NaN counts as the largest number. By bisection.
Tensor searchsorted(const Arg& sorted, const Arg& values, bool right = false);
/// x at index vectors: indices [..., k] choose in x's first k dimensions, k at least 1. -> [..., rest of x]. Indices
/// out of range are moved to the nearest place.
Tensor gather_nd(const Arg& x, const Arg& indices);
/// x with `updates` [..., rest of x] at the places that gather_nd reads; of several updates of one place any one
/// counts. Places out of range are left out.
Tensor scatter_nd(const Arg& x, const Arg& indices, const Arg& updates);
/// The same, added; all updates of one place count.
Tensor scatter_nd_add(const Arg& x, const Arg& indices, const Arg& updates);
/// x whose elements where the mask holds are replaced by the first elements of `source`, both in row-major order. x and
/// mask have one shape; a source that is too short repeats its last element.
Tensor masked_scatter(const Arg& x, const Arg& mask, const Arg& source);

// ---- Random
/// -log(-log(u)): noise whose addition to logits makes the argmax a draw (Gumbel).
Tensor gumbel(const Arg& key, const Shape& shape, DType dtype = DType::kF32);
/// Positions along `axis`, drawn with probabilities softmax(logits): i32, of the logits' shape without the axis.
Tensor categorical(const Arg& key, const Arg& logits, int64_t axis = -1);
/// 0 ... n-1 in random order, i32 [n]. Orders are equally likely but for ties of 32-bit keys.
Tensor permutation(const Arg& key, int64_t n);

}  // namespace nabla
