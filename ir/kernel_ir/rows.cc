#include "ir/kernel_ir/rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace nabla {
namespace {

// Arrays of other libraries may have any alignment.
template <class T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <class T, class Wide>
void read_as(const char* from, int64_t step, int64_t count, Wide* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Wide>(load<T>(from + i * step));
}

// False for other types.
template <class Wide>
bool read_integers(DType dtype, const char* from, int64_t step, int64_t count, Wide* out) {
  switch (dtype) {
    case DType::kI8:
      return read_as<int8_t>(from, step, count, out), true;
    case DType::kI16:
      return read_as<int16_t>(from, step, count, out), true;
    case DType::kI32:
      return read_as<int32_t>(from, step, count, out), true;
    case DType::kI64:
      return read_as<int64_t>(from, step, count, out), true;
    case DType::kU8:
      return read_as<uint8_t>(from, step, count, out), true;
    case DType::kU16:
      return read_as<uint16_t>(from, step, count, out), true;
    case DType::kU32:
      return read_as<uint32_t>(from, step, count, out), true;
    case DType::kU64:
      return read_as<uint64_t>(from, step, count, out), true;
    default:
      return false;
  }
}

template <class T, class Wide>
void write_as(char* to, int64_t step, int64_t count, const Wide* values) {
  for (int64_t i = 0; i < count; ++i) {
    T value = static_cast<T>(values[i]);
    std::memcpy(to + i * step, &value, sizeof(T));
  }
}

// f16 and bf16: what is normal by arithmetic on its bits, the others by get_float and set_float.
template <DType dtype, int mantissa, int bias>
void read_half(const char* from, int64_t step, int64_t count, double* out) {
  constexpr uint32_t kTop = (0x7FFF >> mantissa) << mantissa;
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits = load<uint16_t>(from + i * step);
    uint32_t exponent = bits & kTop;
    if (exponent == 0 || exponent == kTop) {
      out[i] = get_float(dtype, &bits, 0);
      continue;
    }
    uint64_t sign = static_cast<uint64_t>(bits & 0x8000) << 48;
    uint64_t magnitude = (static_cast<uint64_t>(bits & 0x7FFF) << (52 - mantissa)) + (uint64_t{1023 - bias} << 52);
    out[i] = std::bit_cast<double>(sign | magnitude);
  }
}

template <DType dtype, int mantissa, int bias>
void write_half(char* to, int64_t step, int64_t count, const double* values) {
  constexpr int kDropped = 52 - mantissa;
  constexpr uint64_t kLowest = uint64_t{1024 - bias} << 52, kEnd = uint64_t{1023 + bias} << 52;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = std::bit_cast<uint64_t>(values[i]), magnitude = bits & ~(uint64_t{1} << 63);
    uint16_t half = 0;
    if (magnitude >= kLowest && magnitude < kEnd) {  // below the largest power of two: rounding does not overflow
      uint64_t even = (magnitude >> kDropped) & 1;
      magnitude += (uint64_t{1} << (kDropped - 1)) - 1 + even;
      half = static_cast<uint16_t>((magnitude - (uint64_t{1023 - bias} << 52)) >> kDropped);
      half |= static_cast<uint16_t>(bits >> 48) & 0x8000;
    } else {
      set_float(dtype, &half, 0, values[i]);
    }
    std::memcpy(to + i * step, &half, 2);
  }
}

}  // namespace

void read_row(const Literal& x, int64_t first, int64_t step, int64_t count, double* out) {
  int64_t bytes = bytes_of(x.dtype());
  const char* from = static_cast<const char*>(x.data()) + first * bytes;
  switch (x.dtype()) {
    case DType::kF32:
      return read_as<float>(from, step * bytes, count, out);
    case DType::kF64:
      return read_as<double>(from, step * bytes, count, out);
    case DType::kF16:
      return read_half<DType::kF16, 10, 15>(from, step * bytes, count, out);
    case DType::kBF16:
      return read_half<DType::kBF16, 7, 127>(from, step * bytes, count, out);
    default:
      if (read_integers(x.dtype(), from, step * bytes, count, out)) return;
      for (int64_t i = 0; i < count; ++i) out[i] = x.get(first + i * step);
  }
}

void read_row(const Literal& x, int64_t first, int64_t step, int64_t count, int64_t* out) {
  int64_t bytes = bytes_of(x.dtype());
  const char* from = static_cast<const char*>(x.data()) + first * bytes;
  switch (x.dtype()) {
    case DType::kBool:
      for (int64_t i = 0; i < count; ++i) out[i] = from[i * step] != 0;
      return;
    default:
      if (read_integers(x.dtype(), from, step * bytes, count, out)) return;
      for (int64_t i = 0; i < count; ++i) out[i] = x.get_i(first + i * step);
  }
}

void write_row(Literal& x, int64_t first, int64_t step, int64_t count, const double* values) {
  int64_t bytes = bytes_of(x.dtype());
  char* to = static_cast<char*>(x.mutable_data()) + first * bytes;
  switch (x.dtype()) {
    case DType::kF32:
      return write_as<float>(to, step * bytes, count, values);
    case DType::kF64:
      return write_as<double>(to, step * bytes, count, values);
    case DType::kF16:
      return write_half<DType::kF16, 10, 15>(to, step * bytes, count, values);
    case DType::kBF16:
      return write_half<DType::kBF16, 7, 127>(to, step * bytes, count, values);
    default:
      for (int64_t i = 0; i < count; ++i) x.set(first + i * step, values[i]);
  }
}

void write_row(Literal& x, int64_t first, int64_t step, int64_t count, const int64_t* values) {
  int64_t bytes = bytes_of(x.dtype());
  char* to = static_cast<char*>(x.mutable_data()) + first * bytes;
  if (is_float(x.dtype())) {
    double row[kRowBlock];
    for (int64_t begin = 0; begin < count; begin += kRowBlock) {
      int64_t block = std::min(kRowBlock, count - begin);
      std::copy_n(values + begin, block, row);
      write_row(x, first + begin * step, step, block, row);
    }
    return;
  }
  if (x.dtype() == DType::kBool) {
    for (int64_t i = 0; i < count; ++i) to[i * step] = values[i] != 0;
    return;
  }
  switch (bytes) {
    case 1:
      return write_as<uint8_t>(to, step * bytes, count, values);
    case 2:
      return write_as<uint16_t>(to, step * bytes, count, values);
    case 4:
      return write_as<uint32_t>(to, step * bytes, count, values);
    default:
      return write_as<int64_t>(to, step * bytes, count, values);
  }
}

}  // namespace nabla
