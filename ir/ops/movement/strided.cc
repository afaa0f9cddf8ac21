#include "ir/ops/movement/strided.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "ir/kernel_ir/rows.h"

namespace nabla::ops {
namespace {

// Two dimensions of a copy: extents, and strides in bytes.
struct Plane {
  struct Axis {
    int64_t count = 1, to = 0, from = 0;
  };
  Axis outer, inner;
};

template <class T>
void copy_plane(const Plane& p, char* to, const char* from) {
  for (int64_t i = 0; i < p.outer.count; ++i) {
    char* t = to + i * p.outer.to;
    const char* f = from + i * p.outer.from;
    for (int64_t j = 0; j < p.inner.count; ++j, t += p.inner.to, f += p.inner.from) std::memcpy(t, f, sizeof(T));
  }
}

void copy_rows(const Plane& p, int64_t bytes, char* to, const char* from) {
  for (int64_t i = 0; i < p.outer.count; ++i)
    std::memcpy(to + i * p.outer.to, from + i * p.outer.from, static_cast<size_t>(p.inner.count * bytes));
}

// In tiles, so that lines of the cache that one side visits across are used up before they are lost.
template <class T>
void copy_tiles(const Plane& p, char* to, const char* from) {
  constexpr int64_t kTile = 32;
  Plane tile = p;
  for (int64_t i = 0; i < p.outer.count; i += kTile) {
    tile.outer.count = std::min(kTile, p.outer.count - i);
    for (int64_t j = 0; j < p.inner.count; j += kTile) {
      tile.inner.count = std::min(kTile, p.inner.count - j);
      copy_plane<T>(tile, to + i * p.outer.to + j * p.inner.to, from + i * p.outer.from + j * p.inner.from);
    }
  }
}

void copy_typed(const Plane& p, int64_t bytes, char* to, const char* from) {
  bool crosswise = p.outer.from != 0 && std::abs(p.outer.from) < std::abs(p.inner.from);
  with_size(bytes, [&]<class T>(T) { crosswise ? copy_tiles<T>(p, to, from) : copy_plane<T>(p, to, from); });
}

// The dimension that is walked beside the last one: where `from` has its neighbours, else the last but one.
size_t second_axis(const Nest<2>& n) {
  size_t last = n.shape.size() - 1, best = last - 1;
  for (size_t d = 0; d < last; ++d)
    if (std::abs(n.strides[1][d]) == 1 && std::abs(n.strides[1][last]) != 1) best = d;
  return best;
}

}  // namespace

Extents index_of(int64_t position, const Extents& shape) {
  Extents index(shape.size());
  for (size_t d = shape.size(); d-- > 0; position /= shape[d]) index[d] = position % shape[d];
  return index;
}

void copy_strided(Literal& to, const Literal& from, const Nest<2>& nest) {
  constexpr int64_t kShort = 8;       // rows whose loop costs more than their elements
  constexpr int64_t kCallBytes = 64;  // from here on memcpy is worth a call
  Nest<2> n = merged(nest);
  int64_t bytes = bytes_of(to.dtype());
  Plane plane;
  auto take = [&](size_t d) {
    Plane::Axis axis{n.shape[d], n.strides[0][d] * bytes, n.strides[1][d] * bytes};
    n.shape.erase(n.shape.begin() + static_cast<std::ptrdiff_t>(d));
    for (Extents& s : n.strides) s.erase(s.begin() + static_cast<std::ptrdiff_t>(d));
    return axis;
  };
  size_t second = n.shape.size() > 1 ? second_axis(n) : 0;
  if (!n.shape.empty()) plane.inner = take(n.shape.size() - 1);
  if (!n.shape.empty()) plane.outer = take(second);
  bool rows = plane.inner.to == bytes && plane.inner.from == bytes && plane.inner.count * bytes >= kCallBytes;
  if (!rows && plane.inner.count < kShort && plane.outer.count > plane.inner.count) std::swap(plane.inner, plane.outer);
  // What is left is walked plane by plane.
  n.shape.push_back(1);
  for (Extents& s : n.strides) s.push_back(0);
  char* target = static_cast<char*>(to.mutable_data());
  const char* source = static_cast<const char*>(from.data());
  if (plane.inner.count == 0 || plane.outer.count == 0) return;
  for_each_row(n, [&](const auto& at, int64_t count, const auto& step) {
    for (int64_t i = 0; i < count; ++i) {
      char* t = target + (at[0] + i * step[0]) * bytes;
      const char* f = source + (at[1] + i * step[1]) * bytes;
      rows ? copy_rows(plane, bytes, t, f) : copy_typed(plane, bytes, t, f);
    }
  });
}

Literal gathered(const Literal& x, const Type& result, Extents strides, int64_t first) {
  Literal out = Literal::uninitialized(result.dtype, result.extents());
  copy_strided(out, x, {out.shape(), {strides_of(out.shape()), std::move(strides)}, {0, first}});
  return out;
}

void place(Literal& to, const Literal& piece, Extents strides, int64_t first) {
  copy_strided(to, piece, {piece.shape(), {std::move(strides), strides_of(piece.shape())}, {first, 0}});
}

Literal counted(DType dtype, int64_t count, int64_t first) {
  Literal out = Literal::uninitialized(dtype, {count});
  std::array<int64_t, kRowBlock> numbers;
  for (int64_t begin = 0; begin < count; begin += kRowBlock) {
    std::iota(numbers.begin(), numbers.end(), first + begin);
    write_row(out, begin, 1, std::min(kRowBlock, count - begin), numbers.data());
  }
  return out;
}

Literal filled(const Type& result, const Literal& value) {
  return gathered(value, result, Extents(result.shape.size(), 0));
}

}  // namespace nabla::ops
