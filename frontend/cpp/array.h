// More array functions made of several ops: masks, statistics, repetition, order, selection.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontend/cpp/convenience.h"

namespace nabla {

// ---- Elementwise
/// x kept between low and high.
Tensor clip(const Arg& x, const Arg& low, const Arg& high);
/// Division rounded towards minus infinity, as // in Python. Integers by zero give -1.
Tensor floor_divide(const Arg& a, const Arg& b);
/// The remainder of floor_divide, with the sign of b, as % in Python. Integers by zero give a.
Tensor mod(const Arg& a, const Arg& b);
Tensor square(const Arg& x);
/// log(1 + exp(x)) without overflow.
Tensor softplus(const Arg& x);
Tensor log_sigmoid(const Arg& x);
/// x, or slope * x below 0.
Tensor leaky_relu(const Arg& x, double slope = 0.01);
/// x, or alpha (exp(x) - 1) below 0.
Tensor elu(const Arg& x, double alpha = 1);
/// The self-normalising multiple of elu (Klambauer et al., 2017).
Tensor selu(const Arg& x);
/// x tanh(softplus(x)).
Tensor mish(const Arg& x);
/// clip(x + 3, 0, 6) / 6, and x times it.
Tensor hard_sigmoid(const Arg& x);
Tensor hard_swish(const Arg& x);
/// The derivative of lgamma.
Tensor digamma(const Arg& x);
/// Hurwitz' zeta function, the sum over k >= 0 of (q + k)^-x, for x > 1 and q > 0; elsewhere the value means nothing.
/// Riemann's is that of q = 1. Twelve terms, and the rest by Euler and Maclaurin: within 1e-12 up to x = 12.
Tensor zeta(const Arg& x, const Arg& q);
/// Modified Bessel functions of the first kind, I0 and I1; bessel_i0e and bessel_i1e are scaled by exp(-|x|).
Tensor bessel_i0(const Arg& x);
Tensor bessel_i1(const Arg& x);

// ---- Statistics over `axes` (all when there are none), as NumPy's; `ddof` is taken from the number of elements.
Tensor var(const Arg& x, Ints axes = {}, bool keepdims = false, int64_t ddof = 0);
Tensor stddev(const Arg& x, Ints axes = {}, bool keepdims = false, int64_t ddof = 0);
Tensor prod(const Arg& x, Ints axes = {}, bool keepdims = false);
/// Whether all, or any, elements are true (not zero).
Tensor all(const Arg& x, Ints axes = {}, bool keepdims = false);
Tensor any(const Arg& x, Ints axes = {}, bool keepdims = false);
/// The smallest and the largest element.
std::pair<Tensor, Tensor> minmax(const Arg& x);

// ---- Shape
/// A new dimension of extent 1 at `axis`.
Tensor unsqueeze(const Arg& x, int64_t axis);
/// Without the dimensions `axes`, which have extent 1; all such when there are none.
Tensor squeeze(const Arg& x, Ints axes = {});
Tensor moveaxis(const Arg& x, int64_t from, int64_t to);
/// Dimensions first..last as one.
Tensor flatten(const Arg& x, int64_t first = 0, int64_t last = -1);
Tensor stack(const std::vector<Tensor>& tensors, int64_t axis = 0, Site site = Site::here());
/// Parts of equal extent along an axis; E0203 when it does not divide.
std::vector<Tensor> split(const Arg& x, int64_t parts, int64_t axis = 0);
/// Slices along an axis, without it.
std::vector<Tensor> unbind(const Arg& x, int64_t axis = 0);
/// x[start:stop] along one axis; bounds below 0 count from the end.
Tensor slice_axis(const Arg& x, int64_t axis, int64_t start, int64_t stop);
/// The whole tensor `times[d]` times along each dimension.
Tensor tile(const Arg& x, const Ints& times);
/// Each slice along an axis `times` times in a row.
Tensor repeat(const Arg& x, int64_t times, int64_t axis);
/// start, start + step, ... below stop.
Tensor arange(double start, double stop, double step = 1, DType dtype = DType::kF32, Site site = Site::here());
/// The window 0.5 - 0.5 cos(2 pi i / n), with n - 1 for n unless periodic.
Tensor hann_window(int64_t n, bool periodic = true, Site site = Site::here());

// ---- Triangles: of the last two dimensions; elements above (below) diagonal k become 0.
Tensor tril(const Arg& x, int64_t k = 0);
Tensor triu(const Arg& x, int64_t k = 0);
/// bool [rows, columns]: column - row <= k.
Tensor tril_mask(int64_t rows, int64_t columns, int64_t k = 0, Site site = Site::here());

// ---- Order and selection
/// Elements along an axis in order; NaN is the largest.
Tensor sort(const Arg& x, int64_t axis = -1, bool descending = false);
/// Tensors of one shape, rows ordered by the first `keys` of them; the others follow.
std::vector<Tensor> sort(const std::vector<Tensor>& tensors, int keys, int64_t axis = -1, bool descending = false,
                         Site site = Site::here());
/// result[.., i, ..] = x[.., positions[.., i, ..], ..].
Tensor take_along_axis(const Arg& x, const Arg& positions, int64_t axis);
/// x with `updates` added at their positions along an axis, of x's shape but for the axis. E0203 when they do not fit.
Tensor add_along_axis(const Arg& x, const Arg& positions, const Arg& updates, int64_t axis);
/// Slices of x along an axis by position, in place of the axis: x[.., positions, ..].
Tensor take(const Arg& x, const Arg& positions, int64_t axis = 0);
/// Positions of the first `size` elements that are not zero, in row-major order: i32 [size, rank]; where there are
/// fewer, rows of `fill`.
Tensor nonzero(const Arg& x, int64_t size, int32_t fill = -1);
/// The first `size` elements where the mask (of x's shape) holds, in row-major order; then `fill`.
Tensor masked_select(const Arg& x, const Arg& mask, int64_t size, const Arg& fill = 0);

// ---- Random
/// Elements are kept with probability 1 - rate and divided by it.
Tensor dropout(const Arg& x, const Arg& key, double rate);
/// true with probability p.
Tensor bernoulli(const Arg& key, const Shape& shape, double p = 0.5);
/// Integers in [low, high), i32. The bias is below (high - low) / 2^32.
Tensor randint(const Arg& key, const Shape& shape, int64_t low, int64_t high);

// ---- Sums of products
/// numpy.einsum: "ij,jk->ik", with an ellipsis for leading dimensions; without "->" the result's letters are those
/// that appear once, in alphabetical order. A letter twice in one operand takes the diagonal.
Tensor einsum(const std::string& spec, const std::vector<Tensor>& operands, Site site = Site::here());

}  // namespace nabla
