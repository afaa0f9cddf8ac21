// Element types, one row each, and conversions of single elements.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nabla {

enum class DType : uint8_t {
  kBool,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kF8E4M3,
  kF8E5M2
};
inline constexpr int kDTypeCount = 15;

enum class DTypeKind : uint8_t { kBool, kSigned, kUnsigned, kFloat };

struct DTypeInfo {
  std::string_view name;  ///< in text IR: "f32"
  int bytes;              ///< of one element; bool takes one byte, 0 or 1
  DTypeKind kind;
  std::string_view numpy;        ///< descr in .npy files, little-endian; empty: NumPy has no such type
  std::string_view safetensors;  ///< dtype in safetensors headers
};

const DTypeInfo& info(DType dtype);
inline int bytes_of(DType dtype) { return info(dtype).bytes; }

/// Of one array, and of a program's arena: what loaders take.
inline constexpr int64_t kMaxArrayBytes = int64_t{1} << 46;
inline std::string_view name_of(DType dtype) { return info(dtype).name; }
inline bool is_float(DType dtype) { return info(dtype).kind == DTypeKind::kFloat; }
inline bool is_integer(DType d) { return info(d).kind == DTypeKind::kSigned || info(d).kind == DTypeKind::kUnsigned; }
inline bool is_signed(DType dtype) { return info(dtype).kind == DTypeKind::kSigned; }
inline bool is_unsigned(DType dtype) { return info(dtype).kind == DTypeKind::kUnsigned; }
/// A float of 16 or 8 bits.
inline bool is_narrow_float(DType dtype) { return is_float(dtype) && info(dtype).bytes < 4; }
/// The dtype in which sums of `dtype` are kept: f32 for narrow floats, otherwise `dtype`.
inline DType accumulation_type(DType dtype) { return is_narrow_float(dtype) ? DType::kF32 : dtype; }
std::optional<DType> dtype_from_name(std::string_view name);
std::optional<DType> dtype_from_numpy(std::string_view descr);
std::optional<DType> dtype_from_safetensors(std::string_view name);

/// Element `index` of `data` as a double (integers above 2^53 lose bits; use get_int).
double get_float(DType dtype, const void* data, int64_t index);
/// Rounds to nearest even into a float type; integers truncate towards zero and saturate, NaN gives 0.
void set_float(DType dtype, void* data, int64_t index, double value);
/// Element `index` as an integer; u64 keeps its bit pattern; floats truncate towards zero and saturate.
int64_t get_int(DType dtype, const void* data, int64_t index);
/// Integers wrap modulo 2^bits; bool stores value != 0; floats round.
void set_int(DType dtype, void* data, int64_t index, int64_t value);
/// `value` rounded to the values that `dtype` holds (the identity for f64).
double round_to(DType dtype, double value);
/// Distance from 1 to the next larger value of a float type; 0 for the others.
double epsilon_of(DType dtype);

}  // namespace nabla
