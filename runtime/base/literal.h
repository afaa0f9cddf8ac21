// An array in host memory: constants of a module, arguments of the interpreter, contents of array files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"

namespace nabla {

/// Dense, row-major, 64-byte aligned. Copies share the bytes until one of them is written (copy on write).
class Literal {
 public:
  Literal() = default;
  /// Zero-filled. Every extent is >= 0.
  Literal(DType dtype, std::vector<int64_t> shape);
  /// Of bytes that the caller writes, all of them.
  static Literal uninitialized(DType dtype, std::vector<int64_t> shape);
  static Literal scalar(DType dtype, double value);
  static Literal scalar_int(DType dtype, int64_t value);
  /// Copies `size_bytes()` bytes from `data`.
  static Literal from_bytes(DType dtype, std::vector<int64_t> shape, const void* data);

  /// Another library's row-major array: its bytes are neither copied nor written. It may have any alignment.
  static Literal shared(DType dtype, std::vector<int64_t> shape, std::shared_ptr<char> bytes);

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t size() const { return size_; }  ///< elements
  int64_t size_bytes() const { return size_ * bytes_of(dtype_); }
  const void* data() const { return data_.get(); }
  void* mutable_data();  ///< makes the bytes this literal's own

  double get(int64_t i) const { return get_float(dtype_, data(), i); }
  int64_t get_i(int64_t i) const { return get_int(dtype_, data(), i); }
  void set(int64_t i, double v) { set_float(dtype_, mutable_data(), i, v); }
  void set_i(int64_t i, int64_t v) { set_int(dtype_, mutable_data(), i, v); }

  /// The same bytes under another shape of equal size.
  Literal reshaped(std::vector<int64_t> shape) const;
  /// Every element converted by the rules of `convert` (see its op record).
  Literal converted(DType dtype) const;
  /// Bit-for-bit equality of dtype, shape and bytes.
  bool operator==(const Literal& other) const;
  /// "f32[2,3] {1, 2, ...}", at most `limit` elements.
  std::string str(int64_t limit = 16) const;

 private:
  DType dtype_ = DType::kF32;
  std::vector<int64_t> shape_;
  int64_t size_ = 0;
  std::shared_ptr<char> data_;
  bool foreign_ = false;  ///< the bytes are another library's: written to a copy alone
};

/// Product of the extents (1 for a scalar).
int64_t count_of(std::span<const int64_t> shape);
/// Row-major strides in elements.
std::vector<int64_t> strides_of(std::span<const int64_t> shape);
/// "[2,3]"
std::string shape_str(std::span<const int64_t> shape);

}  // namespace nabla
