// Elements of weights in another dtype or order, at the speed of memory.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/format/weights.h"

namespace nabla::format {
namespace {

int mantissa_bits(DType d) {
  if (is_float(d)) return -std::ilogb(epsilon_of(d));
  return 8 * bytes_of(d) - is_signed(d);
}

template <class T>
T load(const uint8_t* from, int64_t i) {
  T value;
  std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

uint16_t bf16_of(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t f16_of(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // rounds to 2^16 or more
  if (magnitude < 0x38800000) {  // below 2^-14 f16 counts in steps of 2^-24, as f32 does from 0.5 on
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
}

// Every code of a narrow dtype, converted once.
template <class Code, class To>
void by_table(DType from_type, DType to_type, const uint8_t* from, To* to, int64_t count) {
  constexpr int kCodes = 1 << (8 * sizeof(Code));
  std::vector<To> table(kCodes);
  for (int c = 0; c < kCodes; ++c) {
    Code code = static_cast<Code>(c);
    set_float(to_type, table.data(), c, get_float(from_type, &code, 0));
  }
  for (int64_t i = 0; i < count; ++i) to[i] = table[load<Code>(from, i)];
}

template <class To>
void from_narrow(DType from_type, DType to_type, const uint8_t* from, void* to, int64_t count) {
  if (bytes_of(from_type) == 1)
    by_table<uint8_t>(from_type, to_type, from, static_cast<To*>(to), count);
  else
    by_table<uint16_t>(from_type, to_type, from, static_cast<To*>(to), count);
}

template <class From, class To, class F>
void each(const uint8_t* from, void* to, int64_t count, F f) {
  for (int64_t i = 0; i < count; ++i) static_cast<To*>(to)[i] = f(load<From>(from, i));
}

void convert(DType from_type, DType to_type, const uint8_t* from, void* to, int64_t count) {
  bool to_float = is_float(to_type);
  if (from_type == to_type) {
    if (count > 0) std::memcpy(to, from, static_cast<size_t>(count * bytes_of(to_type)));
  } else if (to_float && bytes_of(from_type) <= 2 && count > 4096) {
    if (bytes_of(to_type) == 1) return from_narrow<uint8_t>(from_type, to_type, from, to, count);
    if (bytes_of(to_type) == 2) return from_narrow<uint16_t>(from_type, to_type, from, to, count);
    if (bytes_of(to_type) == 4) return from_narrow<float>(from_type, to_type, from, to, count);
    from_narrow<double>(from_type, to_type, from, to, count);
  } else if (from_type == DType::kF32 && to_type == DType::kF64) {
    each<float, double>(from, to, count, [](float v) { return static_cast<double>(v); });
  } else if (from_type == DType::kF64 && to_type == DType::kF32) {
    each<double, float>(from, to, count, [](double v) { return static_cast<float>(v); });
  } else if (from_type == DType::kF32 && to_type == DType::kBF16) {
    each<float, uint16_t>(from, to, count, bf16_of);
  } else if (from_type == DType::kF32 && to_type == DType::kF16) {
    each<float, uint16_t>(from, to, count, f16_of);
  } else if (to_float) {
    for (int64_t i = 0; i < count; ++i) set_float(to_type, to, i, get_float(from_type, from, i));
  } else {
    for (int64_t i = 0; i < count; ++i) set_int(to_type, to, i, get_int(from_type, from, i));
  }
}

// [rows, columns] to [columns, rows], in blocks that stay in the cache.
template <class T>
void transposed(const uint8_t* from, uint8_t* to, int64_t rows, int64_t columns) {
  constexpr int64_t kBlock = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kBlock)
    for (int64_t c0 = 0; c0 < columns; c0 += kBlock)
      for (int64_t c = c0; c < std::min(columns, c0 + kBlock); ++c)
        for (int64_t r = r0; r < std::min(rows, r0 + kBlock); ++r) {
          T value = load<T>(from, r * columns + c);
          std::memcpy(to + (c * rows + r) * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
        }
}

void transposed(DType dtype, const uint8_t* from, uint8_t* to, int64_t rows, int64_t columns) {
  switch (bytes_of(dtype)) {
    case 1:
      return transposed<uint8_t>(from, to, rows, columns);
    case 2:
      return transposed<uint16_t>(from, to, rows, columns);
    case 4:
      return transposed<uint32_t>(from, to, rows, columns);
    default:
      return transposed<uint64_t>(from, to, rows, columns);
  }
}

double largest_of(DType d) {
  switch (d) {
    case DType::kF16:
      return 65504;
    case DType::kBF16:
      return 0x1.fep127;
    case DType::kF32:
      return std::numeric_limits<float>::max();
    case DType::kF8E4M3:
      return 448;
    case DType::kF8E5M2:
      return 57344;
    default:
      return std::numeric_limits<double>::max();
  }
}

// Finite numbers that are not finite any more; only those beyond the largest one are looked at closely.
template <class From>
int64_t became_infinite(DType to_type, const uint8_t* from, const void* to, int64_t count) {
  int64_t lost = 0;
  auto largest = static_cast<From>(largest_of(to_type));
  for (int64_t i = 0; i < count; ++i) {
    From v = std::fabs(load<From>(from, i));
    if (v > largest && std::isfinite(v)) lost += !std::isfinite(get_float(to_type, to, i));
  }
  return lost;
}
int64_t became_infinite(DType from_type, DType to_type, const uint8_t* from, const void* to, int64_t count) {
  if (from_type == DType::kF64) return became_infinite<double>(to_type, from, to, count);
  if (from_type == DType::kF32) return became_infinite<float>(to_type, from, to, count);
  int64_t lost = 0;
  for (int64_t i = 0; i < count; ++i)
    lost += std::isfinite(get_float(from_type, from, i)) && !std::isfinite(get_float(to_type, to, i));
  return lost;
}

}  // namespace

bool can_convert(DType from, DType to) {
  if (from == DType::kBool || to == DType::kBool) return from == to;
  return is_float(to) || !is_float(from);
}

bool narrows(DType from, DType to) {
  return mantissa_bits(to) < mantissa_bits(from) || (is_float(from) && largest_of(to) < largest_of(from));
}

Status check_range(const WeightFile& file, const WeightPlan::Load& load, const TensorType& leaf) {
  const TensorType& tensor = file.tensors()[static_cast<size_t>(load.tensor)];
  if (is_float(leaf.dtype) || leaf.dtype == tensor.dtype) return Ok{};
  const uint8_t* from = file.data(load.tensor);
  for (int64_t i = 0; i < count_of(tensor.shape); ++i) {
    int64_t value = get_int(tensor.dtype, from, i), stored = 0;
    set_int(leaf.dtype, &stored, 0, value);
    // Signs are compared too: u64 above 2^63 and negative numbers share bit patterns.
    bool same = get_int(leaf.dtype, &stored, 0) == value;
    bool sign = value < 0 && tensor.dtype != leaf.dtype && is_signed(tensor.dtype) != is_signed(leaf.dtype);
    if (same && !sign) continue;
    std::string text =
        is_unsigned(tensor.dtype) ? fmt::format("{}", static_cast<uint64_t>(value)) : fmt::format("{}", value);
    return error(Code::kStateMismatch, "{}: element {} of `{}` is {}, which state `{}` ({}) cannot hold", file.path(),
                 i, tensor.name, text, leaf.name, leaf.str());
  }
  return Ok{};
}

int64_t convert_weights(const WeightFile& file, const WeightPlan::Load& load, const TensorType& leaf, void* to) {
  const TensorType& tensor = file.tensors()[static_cast<size_t>(load.tensor)];
  const uint8_t* from = file.data(load.tensor);
  int64_t count = count_of(tensor.shape);
  std::vector<uint8_t> turned;
  if (load.transpose) {
    turned.resize(static_cast<size_t>(tensor.bytes()));
    transposed(tensor.dtype, from, turned.data(), tensor.shape[0], tensor.shape[1]);
    from = turned.data();
  }
  convert(tensor.dtype, leaf.dtype, from, to, count);
  bool may_overflow = is_float(leaf.dtype) && largest_of(leaf.dtype) < largest_of(tensor.dtype);
  return may_overflow && is_float(tensor.dtype) ? became_infinite(tensor.dtype, leaf.dtype, from, to, count) : 0;
}

}  // namespace nabla::format
