// Functions made of several ops, with the arguments that users of array libraries know.
#pragma once

#include <initializer_list>

#include "frontend/cpp/ops.h"

namespace nabla {

/// Products of matrices in the last two dimensions; leading dimensions are broadcast. Vectors are allowed as in NumPy.
Tensor matmul(const Arg& a, const Arg& b);
/// Reductions over `axes` (all when there are none); axes below 0 count from the end. `keepdims` leaves extents of 1.
Tensor sum(const Arg& x, Ints axes = {}, bool keepdims = false);
/// The operand is floating.
Tensor mean(const Arg& x, Ints axes = {}, bool keepdims = false);
Tensor amax(const Arg& x, Ints axes = {}, bool keepdims = false);
Tensor amin(const Arg& x, Ints axes = {}, bool keepdims = false);
/// One extent may be -1: it takes what is left. E0203 when nothing fits.
Tensor reshape(const Arg& x, std::initializer_list<int64_t> extents);
/// x[starts[0] : limits[0], ...], one entry per dimension; sizes may be symbolic, and a limit of -1 is the end. E0204
/// where the range is outside, E0207 with the constraint to declare where it may be.
Tensor slice(const Arg& x, const Shape& starts, const Shape& limits);
/// x with `low` and `high` more elements `value` before and after, per dimension; sizes may be symbolic.
Tensor pad(const Arg& x, const Arg& value, const Shape& low, const Shape& high);
/// As in NumPy; E0203 when x does not broadcast to the shape.
Tensor broadcast_to(const Arg& x, const Shape& shape);
/// The last two dimensions exchanged.
Tensor transpose(const Arg& x);
/// x [n, height, width, c], filter [taps, taps, c / groups, out]; zeros around x. -> [n, height', width', out]
Tensor conv2d(const Arg& x, const Arg& filter, int64_t stride = 1, int64_t padding = 0, int64_t dilation = 1,
              int64_t groups = 1);
/// Maximum over windows of [n, height, width, c]. A stride of 0 stands for the window.
Tensor max_pool2d(const Arg& x, int64_t window, int64_t stride = 0);
/// Mean over windows of [n, height, width, c]. A stride of 0 stands for the window.
Tensor avg_pool2d(const Arg& x, int64_t window, int64_t stride = 0);
/// 1 where the new last dimension counts the label, else 0. Labels out of range give a row of zeros.
Tensor one_hot(const Arg& labels, int64_t classes, DType dtype = DType::kF32);
Tensor full(const Shape& shape, double value, DType dtype = DType::kF32, Site site = Site::here());
Tensor zeros(const Shape& shape, DType dtype = DType::kF32, Site site = Site::here());
Tensor ones(const Shape& shape, DType dtype = DType::kF32, Site site = Site::here());
Tensor zeros_like(const Arg& x);
/// rng_fold_in with a number: an independent key for each `n`.
Tensor fold_in(const Arg& key, uint32_t n);
/// The same with a scalar of any integer dtype, such as a step counter.
Tensor fold_in(const Arg& key, const Tensor& n);

}  // namespace nabla
