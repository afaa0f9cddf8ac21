#include "runtime/comm/combine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/base/dtype.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace nabla::comm {
namespace {

using format::Reduction;

constexpr int64_t kBlock = 128;      // elements that are combined at a time: reads of the next overlap with writes of these
constexpr int64_t kLarge = 4 << 20;  // bytes of a result that no cache is to keep

// Whether elements are of the type that they are combined in.
template <class Wide>
bool is(DType dtype) {
  return bytes_of(dtype) == static_cast<int>(sizeof(Wide)) && is_float(dtype) == std::is_floating_point_v<Wide>;
}

// From elements to the type that they are combined in, and back.
template <class Wide>
void load(DType dtype, const void* from, int64_t at, int64_t count, Wide* to) {
  if (is<Wide>(dtype)) {
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
  if (is<Wide>(dtype)) {
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

// Copies past the caches: a line that is written whole need not be read before.
void stream(void* to, const void* from, int64_t bytes) {
#ifdef __SSE2__
  if (reinterpret_cast<uintptr_t>(to) % 16 == 0) {
    int64_t whole = bytes / 16;
    for (int64_t i = 0; i < whole; ++i)
      _mm_stream_si128(static_cast<__m128i*>(to) + i, _mm_loadu_si128(static_cast<const __m128i*>(from) + i));
    to = static_cast<__m128i*>(to) + whole, from = static_cast<const __m128i*>(from) + whole, bytes -= whole * 16;
  }
#endif
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

// Streamed stores are seen by who waits for this rank.
void end_stream() {
#ifdef __SSE2__
  _mm_sfence();
#endif
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

// Elements [at, at + count): where they lie if they can be read there, else in `room`.
template <class Wide>
const Wide* elements(DType dtype, const void* from, int64_t at, int64_t count, Wide* room) {
  if (is<Wide>(dtype) && reinterpret_cast<uintptr_t>(from) % alignof(Wide) == 0) return static_cast<const Wide*>(from) + at;
  load(dtype, from, at, count, room);
  return room;
}

template <class Wide>
void combine_as(Reduction reduction, DType dtype, std::span<const void* const> parts, std::span<void* const> to,
                int64_t begin, int64_t end) {
  Wide sum[kBlock], room[kBlock];
  bool past_caches = is<Wide>(dtype) && (end - begin) * static_cast<int64_t>(sizeof(Wide)) >= kLarge;
  for (int64_t at = begin; at < end; at += kBlock) {
    int64_t count = std::min(kBlock, end - at);
    load(dtype, parts[0], at, count, sum);
    for (size_t p = 1; p < parts.size(); ++p) join(reduction, sum, elements(dtype, parts[p], at, count, room), count);
    for (void* out : to) {
      if (past_caches)
        stream(static_cast<Wide*>(out) + at, sum, count * static_cast<int64_t>(sizeof(Wide)));
      else
        store(dtype, sum, at, count, out);
    }
  }
  if (past_caches) end_stream();
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
