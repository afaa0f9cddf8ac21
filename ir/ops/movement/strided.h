// Loops over several arrays at once, and copies between them: what the references of movement, reductions and windows
// are made of.
#pragma once

#include <array>

#include "ir/ops/common.h"

namespace nabla::ops {

/// K arrays under one index space. Position of `index` in array k: first[k] + sum of index * strides[k], in elements; a
/// stride is 0 where an array repeats and negative where it runs backwards.
template <size_t K>
struct Nest {
  Extents shape;
  std::array<Extents, K> strides;
  std::array<int64_t, K> first{};
};

/// The same positions in the same order, in as few dimensions as can be.
template <size_t K>
Nest<K> merged(const Nest<K>& nest) {
  Nest<K> out{{}, {}, nest.first};
  for (size_t d = 0; d < nest.shape.size(); ++d) {
    if (nest.shape[d] == 1) continue;
    bool joins = !out.shape.empty();
    for (size_t k = 0; k < K; ++k) joins = joins && out.strides[k].back() == nest.strides[k][d] * nest.shape[d];
    if (!joins) out.shape.push_back(1);
    out.shape.back() *= nest.shape[d];
    for (size_t k = 0; k < K; ++k) {
      if (!joins) out.strides[k].push_back(0);
      out.strides[k].back() = nest.strides[k][d];
    }
  }
  return out;
}

/// Calls f(first, count, step) for every row, in row-major order: `first` and `step` hold a number per array. Rows are
/// as long as they can be.
template <size_t K, class F>
void for_each_row(const Nest<K>& nest, F f) {
  Nest<K> n = merged(nest);
  if (count_of(n.shape) == 0) return;
  std::array<int64_t, K> at = n.first, step{};
  int64_t count = 1;
  if (!n.shape.empty()) {
    count = n.shape.back();
    n.shape.pop_back();
    for (size_t k = 0; k < K; ++k) step[k] = n.strides[k].back();
  }
  Extents index(n.shape.size(), 0);
  while (true) {
    f(static_cast<const std::array<int64_t, K>&>(at), count, static_cast<const std::array<int64_t, K>&>(step));
    size_t d = n.shape.size();
    for (; d > 0; --d) {
      bool wraps = ++index[d - 1] == n.shape[d - 1];
      for (size_t k = 0; k < K; ++k) at[k] += n.strides[k][d - 1] * (wraps ? 1 - n.shape[d - 1] : 1);
      if (!wraps) break;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

/// The index at a position of a row-major array of this shape.
Extents index_of(int64_t position, const Extents& shape);

/// f of an unsigned integer that is as large as an element: 1, 2, 4 or 8 bytes.
template <class F>
void with_size(int64_t bytes, F f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

/// Copies elements of array 1 of the nest, `from`, to array 0, `to`. The dtypes are of one size.
void copy_strided(Literal& to, const Literal& from, const Nest<2>& nest);
/// A new array: the elements of x at these strides from `first` on.
Literal gathered(const Literal& x, const Type& result, Extents strides, int64_t first = 0);
/// Writes all of `piece` to the elements of `to` at these strides from `first` on.
void place(Literal& to, const Literal& piece, Extents strides, int64_t first);
/// `count` numbers: first, first + 1 and so on, as `set_i` writes them.
Literal counted(DType dtype, int64_t count, int64_t first = 0);
/// `value`, a scalar, everywhere.
Literal filled(const Type& result, const Literal& value);

}  // namespace nabla::ops
