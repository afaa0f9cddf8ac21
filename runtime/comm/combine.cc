#include "runtime/comm/combine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/base/dtype.h"

namespace nabla::comm {
namespace {

using format::Reduction;

constexpr int64_t kBlock = 1024;  // elements that are combined at a time, in the cache

// From elements to the type that they are combined in, and back.
template <class Wide>
void load(DType dtype, const void* from, int64_t at, int64_t count, Wide* to) {
  if (bytes_of(dtype) == static_cast<int>(sizeof(Wide)) && is_float(dtype) == std::is_floating_point_v<Wide>) {
    std::memcpy(to, static_cast<const Wide*>(from) + at, static_cast<size_t>(count) * sizeof(Wide));
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    if constexpr (std::is_floating_point_v<Wide>)
      to[i] = static_cast<Wide>(get_float(dtype, from, at + i));
    else
      to[i] = static_cast<Wide>(get_int(dtype, from, at + i));
}

template <class Wide>
void store(DType dtype, const Wide* from, int64_t at, int64_t count, void* to) {
  if (bytes_of(dtype) == static_cast<int>(sizeof(Wide)) && is_float(dtype) == std::is_floating_point_v<Wide>) {
    std::memcpy(static_cast<Wide*>(to) + at, from, static_cast<size_t>(count) * sizeof(Wide));
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    if constexpr (std::is_floating_point_v<Wide>)
      set_float(dtype, to, at + i, from[i]);
    else
      set_int(dtype, to, at + i, static_cast<int64_t>(from[i]));
}

template <class Wide>
Wide larger(Wide a, Wide b) {
  if constexpr (std::is_floating_point_v<Wide>)
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Wide>::quiet_NaN();
  return a > b ? a : b;
}
template <class Wide>
Wide smaller(Wide a, Wide b) {
  if constexpr (std::is_floating_point_v<Wide>)
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Wide>::quiet_NaN();
  return a < b ? a : b;
}

template <class Wide, class F>
void each(Wide* __restrict sum, const Wide* __restrict next, int64_t count, F f) {
  for (int64_t i = 0; i < count; ++i) sum[i] = f(sum[i], next[i]);
}

// Signed integers wrap as unsigned ones do.
template <class Wide>
void join(Reduction reduction, Wide* sum, const Wide* next, int64_t count) {
  using Wrap = std::conditional_t<std::is_floating_point_v<Wide>, Wide, uint64_t>;
  switch (reduction) {
    case Reduction::Sum:
      return each(sum, next, count,
                  [](Wide a, Wide b) { return static_cast<Wide>(static_cast<Wrap>(a) + static_cast<Wrap>(b)); });
    case Reduction::Prod:
      return each(sum, next, count,
                  [](Wide a, Wide b) { return static_cast<Wide>(static_cast<Wrap>(a) * static_cast<Wrap>(b)); });
    case Reduction::Max:
      return each(sum, next, count, larger<Wide>);
    case Reduction::Min:
      return each(sum, next, count, smaller<Wide>);
    default:
      if constexpr (!std::is_floating_point_v<Wide>) {
        if (reduction == Reduction::And)
          each(sum, next, count, [](Wide a, Wide b) { return static_cast<Wide>(a & b); });
        if (reduction == Reduction::Or) each(sum, next, count, [](Wide a, Wide b) { return static_cast<Wide>(a | b); });
      }
  }
}

template <class Wide>
void combine_as(Reduction reduction, DType dtype, std::span<const void* const> parts, std::span<void* const> to,
                int64_t begin, int64_t end) {
  Wide sum[kBlock], next[kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    int64_t count = std::min(kBlock, end - at);
    load(dtype, parts[0], at, count, sum);
    for (size_t p = 1; p < parts.size(); ++p) {
      load(dtype, parts[p], at, count, next);
      join(reduction, sum, next, count);
    }
    for (void* out : to) store(dtype, sum, at, count, out);
  }
}

}  // namespace

void combine(Reduction reduction, format::DType dtype, std::span<const void* const> parts, std::span<void* const> to,
             int64_t begin, int64_t end) {
  auto type = static_cast<DType>(dtype);
  if (type == DType::kF64) return combine_as<double>(reduction, type, parts, to, begin, end);
  if (is_float(type)) return combine_as<float>(reduction, type, parts, to, begin, end);
  if (is_unsigned(type)) return combine_as<uint64_t>(reduction, type, parts, to, begin, end);
  return combine_as<int64_t>(reduction, type, parts, to, begin, end);
}

}  // namespace nabla::comm
