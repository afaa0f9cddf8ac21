// Layers as functions of their parameters: pooling, transposed convolution, normalisation, attention with a cache.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "frontend/cpp/array.h"
#include "frontend/cpp/program.h"

namespace nabla::nn {

// ---- Windows over images [n, height, width, c]

struct Pool2d {
  std::array<int64_t, 2> window = {2, 2};
  std::array<int64_t, 2> stride = {0, 0};    ///< 0: that of the window
  std::array<int64_t, 2> padding = {0, 0};   ///< on both sides; at most half of the window
  std::array<int64_t, 2> dilation = {1, 1};  ///< distance of neighbouring taps
  bool ceil_mode = false;         ///< windows that reach beyond the padded image count too, unless they begin there
  bool count_include_pad = true;  ///< means: whether padding counts as elements
};
/// Maxima of windows; padding never wins. E0204 for a padding beyond half of the window.
Tensor max_pool2d(const Arg& x, const Pool2d& options);
/// Means of windows. With ceil_mode what lies beyond the padding never counts.
Tensor avg_pool2d(const Arg& x, const Pool2d& options);

struct ConvTranspose2d {
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};         ///< cut off from the full result on each side
  std::array<int64_t, 2> output_padding = {0, 0};  ///< more rows and columns at the end; less than the stride
  std::array<int64_t, 2> dilation = {1, 1};
  int64_t groups = 1;
};
/// The transpose of conv2d: x [n, h, w, in], filter [taps, taps, out / groups, in] -> [n, h', w', out] with
/// h' = (h - 1) stride - 2 padding + dilation (taps - 1) + output_padding + 1.
Tensor conv2d_transpose(const Arg& x, const Arg& filter, const ConvTranspose2d& options = {});

// ---- Normalisation of [n, ..., c]

/// Groups of channels, normalised over their positions and channels per example. gamma, beta: [c].
Tensor group_norm(const Arg& x, const Arg& gamma, const Arg& beta, int64_t groups, double eps = 1e-5);

/// Parameters (gamma, beta) or running statistics (mean, variance) per channel: [c].
template <class T>
struct NormPair {
  T scale, shift;
  template <class V>
  void visit(V&& v) {
    v("scale", scale);
    v("shift", shift);
  }
};
struct BatchNormResult {
  Tensor out, mean, variance;  ///< the batch's statistics; the variance divides by the number of elements
};
/// Training: normalises by the statistics of the batch, [c]. With `parts`, each of so many equal parts of the batch by its own,
/// [parts, c] (Hoffer et al., "Train longer, generalize better", 2017): ranks that have a part each exchange none. E0203 where the
/// parts do not divide the first dimension.
BatchNormResult batch_norm_train(const Arg& x, const Arg& gamma, const Arg& beta, double eps = 1e-5, int64_t parts = 0);
/// Inference: normalises by given statistics, [c], or [parts, c] for each part of the batch its own.
Tensor batch_norm(const Arg& x, const Arg& gamma, const Arg& beta, const Arg& mean, const Arg& variance,
                  double eps = 1e-5);

/// Batch normalisation with running statistics as state leaves "PREFIX.mean" and "PREFIX.variance", [c], or [parts, c].
class BatchNorm {
 public:
  BatchNorm(Program& program, int64_t channels, const std::string& prefix, double momentum = 0.1, double eps = 1e-5,
            int64_t parts = 0, Site site = Site::here());
  /// In the entry that makes the parameters: mean 0, variance 1.
  void init(Site site = Site::here()) const;
  /// Updates the running statistics by the batch's: (1 - momentum) old + momentum new, the variance unbiased as in
  /// PyTorch, from `elements` of a channel (in a part). Call it in an entry itself, on the statistics that batch_norm_train gave.
  void update(const Arg& mean, const Arg& variance, double elements) const;
  Tensor apply(const Arg& x, const Arg& gamma, const Arg& beta) const;
  double eps() const { return eps_; }

 private:
  State mean_, variance_;
  double momentum_, eps_;
};

// ---- Attention

/// cache [.., capacity, ..] with `values` written from `position` on along `axis`. In an entry that reads the cache
/// from a state leaf and sets the leaf to the result, only the new values are written. Positions beyond the capacity
/// are moved back so that the values fit: keep count of them.
Tensor cache_append(const Arg& cache, const Arg& values, const Arg& position, int64_t axis);
/// Mask for attention over a cache: query i of `queries`, which stands at position + i, sees keys up to itself.
/// bool [1, 1, queries, capacity].
Tensor cache_mask(const Arg& position, int64_t queries, int64_t capacity);
/// position, position + 1, ...: i32 [count].
Tensor positions_from(const Arg& position, int64_t count);
/// [batch, positions, heads * features] as [batch, heads, positions, features], and back.
Tensor split_heads(const Arg& x, int64_t heads);
Tensor merge_heads(const Arg& x);

}  // namespace nabla::nn
