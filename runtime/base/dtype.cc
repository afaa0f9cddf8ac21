#include "runtime/base/dtype.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/check.h"

namespace nabla {
namespace {

constexpr DTypeInfo kRows[kDTypeCount] = {
    {"bool", 1, DTypeKind::kBool, "|b1", "BOOL"},    {"i8", 1, DTypeKind::kSigned, "|i1", "I8"},
    {"i16", 2, DTypeKind::kSigned, "<i2", "I16"},    {"i32", 4, DTypeKind::kSigned, "<i4", "I32"},
    {"i64", 8, DTypeKind::kSigned, "<i8", "I64"},    {"u8", 1, DTypeKind::kUnsigned, "|u1", "U8"},
    {"u16", 2, DTypeKind::kUnsigned, "<u2", "U16"},  {"u32", 4, DTypeKind::kUnsigned, "<u4", "U32"},
    {"u64", 8, DTypeKind::kUnsigned, "<u8", "U64"},  {"f16", 2, DTypeKind::kFloat, "<f2", "F16"},
    {"bf16", 2, DTypeKind::kFloat, "", "BF16"},      {"f32", 4, DTypeKind::kFloat, "<f4", "F32"},
    {"f64", 8, DTypeKind::kFloat, "<f8", "F64"},     {"f8e4m3", 1, DTypeKind::kFloat, "", "F8_E4M3"},
    {"f8e5m2", 1, DTypeKind::kFloat, "", "F8_E5M2"},
};

// A float format narrower than f32, described by its fields. f8e4m3 is the OCP "fn" variant: no infinity.
struct MiniFloat {
  int exponent_bits;
  int mantissa_bits;
  bool finite_only;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
constexpr MiniFloat kF16Format{5, 10, false}, kBF16Format{8, 7, false}, kE4M3Format{4, 3, true},
    kE5M2Format{5, 2, false};

// A NaN whose leading mantissa bits are `mantissa`, and the leading bits of a NaN's mantissa, in f64. Conversions keep them, so
// that values that are only moved keep their bits. 0 stands for no NaN: such a result is a quiet NaN.
constexpr int kMantissaOfF64 = 52;
double nan_of(bool negative, uint64_t mantissa, int mantissa_bits) {
  uint64_t bits = uint64_t{negative} << 63 | uint64_t{0x7ff} << kMantissaOfF64 | mantissa << (kMantissaOfF64 - mantissa_bits);
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
uint32_t mantissa_of_nan(double nan, int mantissa_bits) {
  uint64_t bits;
  std::memcpy(&bits, &nan, sizeof bits);
  uint64_t leading = (bits & ((uint64_t{1} << kMantissaOfF64) - 1)) >> (kMantissaOfF64 - mantissa_bits);
  return leading != 0 ? static_cast<uint32_t>(leading) : 1u << (mantissa_bits - 1);
}

double decode(MiniFloat f, uint32_t bits) {
  int sign = (bits >> (f.exponent_bits + f.mantissa_bits)) & 1;
  int exponent = (bits >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  uint32_t mantissa = bits & ((1u << f.mantissa_bits) - 1);
  int top = (1 << f.exponent_bits) - 1;
  double value;
  if (exponent == top && (!f.finite_only || mantissa == (1u << f.mantissa_bits) - 1)) {
    if (mantissa || f.finite_only) return nan_of(sign, mantissa, f.mantissa_bits);
    value = HUGE_VAL;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - f.bias() - f.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1u << f.mantissa_bits), exponent - f.bias() - f.mantissa_bits);
  }
  return sign ? -value : value;
}

uint32_t encode(MiniFloat f, double value) {
  uint32_t sign = std::signbit(value) ? 1u << (f.exponent_bits + f.mantissa_bits) : 0;
  uint32_t top = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
  uint32_t nan = top | ((1u << f.mantissa_bits) - 1);  // the only one of a format without infinities
  uint32_t infinity = f.finite_only ? nan : top;
  if (std::isnan(value)) return f.finite_only ? sign | nan : sign | top | mantissa_of_nan(value, f.mantissa_bits);
  double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  if (magnitude == 0) return sign;
  int exponent;
  std::frexp(magnitude, &exponent);                  // magnitude in [2^(exponent-1), 2^exponent)
  int scale = std::max(exponent - 1, 1 - f.bias());  // subnormals share the smallest exponent
  double units = std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - scale));  // to nearest even
  // Adding the mantissa's carry to the exponent field rounds up across a power of two for free.
  double code = units + std::ldexp(static_cast<double>(scale + f.bias() - 1), f.mantissa_bits);
  double limit = infinity;
  return code >= limit ? sign | infinity : sign | static_cast<uint32_t>(code);
}

template <class T>
T load(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void store(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

constexpr int kMantissaOfF32 = 23;
// The processor's conversions would make signalling NaNs quiet.
double wide(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  uint32_t mantissa = bits & ((1u << kMantissaOfF32) - 1);
  return std::isnan(value) ? nan_of(bits >> 31, mantissa, kMantissaOfF32) : value;
}
uint32_t bits_of_f32(double value) {
  float rounded = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &rounded, sizeof bits);
  if (!std::isnan(value)) return bits;
  return uint32_t{std::signbit(value)} << 31 | 0x7f800000 | mantissa_of_nan(value, kMantissaOfF32);
}

// Float to integer: towards zero, saturating, NaN to 0 (what XLA and Rust do).
template <class T>
T saturate(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

}  // namespace

const DTypeInfo& info(DType dtype) {
  NABLA_CHECK(static_cast<int>(dtype) < kDTypeCount, "dtype {}", static_cast<int>(dtype));
  return kRows[static_cast<int>(dtype)];
}

static std::optional<DType> find_row(std::string_view text, std::string_view DTypeInfo::*column) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (!text.empty() && kRows[i].*column == text) return static_cast<DType>(i);
  return std::nullopt;
}
std::optional<DType> dtype_from_name(std::string_view name) { return find_row(name, &DTypeInfo::name); }
std::optional<DType> dtype_from_numpy(std::string_view descr) { return find_row(descr, &DTypeInfo::numpy); }
std::optional<DType> dtype_from_safetensors(std::string_view name) { return find_row(name, &DTypeInfo::safetensors); }

double get_float(DType dtype, const void* data, int64_t i) {
  switch (dtype) {
    case DType::kF64:
      return load<double>(data, i);
    case DType::kF32:
      return wide(load<float>(data, i));
    case DType::kF16:
      return decode(kF16Format, load<uint16_t>(data, i));
    case DType::kBF16:
      return decode(kBF16Format, load<uint16_t>(data, i));
    case DType::kF8E4M3:
      return decode(kE4M3Format, load<uint8_t>(data, i));
    case DType::kF8E5M2:
      return decode(kE5M2Format, load<uint8_t>(data, i));
    case DType::kU64:
      return static_cast<double>(load<uint64_t>(data, i));
    default:
      return static_cast<double>(get_int(dtype, data, i));
  }
}

void set_float(DType dtype, void* data, int64_t i, double v) {
  switch (dtype) {
    case DType::kF64:
      return store<double>(data, i, v);
    case DType::kF32:
      return store<uint32_t>(data, i, bits_of_f32(v));
    case DType::kF16:
      return store<uint16_t>(data, i, static_cast<uint16_t>(encode(kF16Format, v)));
    case DType::kBF16:
      return store<uint16_t>(data, i, static_cast<uint16_t>(encode(kBF16Format, v)));
    case DType::kF8E4M3:
      return store<uint8_t>(data, i, static_cast<uint8_t>(encode(kE4M3Format, v)));
    case DType::kF8E5M2:
      return store<uint8_t>(data, i, static_cast<uint8_t>(encode(kE5M2Format, v)));
    case DType::kBool:
      return store<uint8_t>(data, i, v != 0);
    case DType::kI8:
      return store(data, i, saturate<int8_t>(v));
    case DType::kI16:
      return store(data, i, saturate<int16_t>(v));
    case DType::kI32:
      return store(data, i, saturate<int32_t>(v));
    case DType::kI64:
      return store(data, i, saturate<int64_t>(v));
    case DType::kU8:
      return store(data, i, saturate<uint8_t>(v));
    case DType::kU16:
      return store(data, i, saturate<uint16_t>(v));
    case DType::kU32:
      return store(data, i, saturate<uint32_t>(v));
    case DType::kU64:
      return store(data, i, saturate<uint64_t>(v));
  }
}

int64_t get_int(DType dtype, const void* data, int64_t i) {
  switch (dtype) {
    case DType::kBool:
      return load<uint8_t>(data, i) != 0;
    case DType::kI8:
      return load<int8_t>(data, i);
    case DType::kI16:
      return load<int16_t>(data, i);
    case DType::kI32:
      return load<int32_t>(data, i);
    case DType::kI64:
      return load<int64_t>(data, i);
    case DType::kU8:
      return load<uint8_t>(data, i);
    case DType::kU16:
      return load<uint16_t>(data, i);
    case DType::kU32:
      return load<uint32_t>(data, i);
    case DType::kU64:
      return static_cast<int64_t>(load<uint64_t>(data, i));
    default:
      return saturate<int64_t>(get_float(dtype, data, i));
  }
}

// What a double holds of an integer, with an odd last bit where bits are lost: rounded once more, to a narrower format, it
// gives what the integer gives.
static double odd(int64_t v) {
  bool fits = std::abs(static_cast<double>(v)) < 0x1p53;
  return static_cast<double>(fits || v % 4096 == 0 ? v : (v & ~int64_t{4095}) | 2048);
}

void set_int(DType dtype, void* data, int64_t i, int64_t v) {
  if (is_float(dtype)) return set_float(dtype, data, i, dtype == DType::kF64 ? static_cast<double>(v) : odd(v));
  switch (bytes_of(dtype)) {
    case 1:
      return store<uint8_t>(data, i, dtype == DType::kBool ? v != 0 : static_cast<uint8_t>(v));
    case 2:
      return store<uint16_t>(data, i, static_cast<uint16_t>(v));
    case 4:
      return store<uint32_t>(data, i, static_cast<uint32_t>(v));
    default:
      return store<int64_t>(data, i, v);
  }
}

double round_to(DType dtype, double value) {
  uint64_t cell = 0;
  set_float(dtype, &cell, 0, value);
  return get_float(dtype, &cell, 0);
}

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return std::numeric_limits<double>::epsilon();
    case DType::kF32:
      return std::numeric_limits<float>::epsilon();
    case DType::kF16:
      return std::ldexp(1, -10);
    case DType::kBF16:
      return std::ldexp(1, -7);
    case DType::kF8E4M3:
      return std::ldexp(1, -3);
    case DType::kF8E5M2:
      return std::ldexp(1, -2);
    default:
      return 0;
  }
}

}  // namespace nabla
