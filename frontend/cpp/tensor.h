// Values of the function being traced, the places in the user's source that they come from, and their operators.
// Scalars and implicit broadcasting exist here and nowhere below the frontend.
#pragma once

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "ir/type.h"
#include "runtime/base/diagnostic.h"
#include "runtime/base/literal.h"

namespace nabla {

using ir::Shape;
using Ints = std::vector<int64_t>;

inline constexpr DType boolean = DType::kBool;
inline constexpr DType i8 = DType::kI8, i16 = DType::kI16, i32 = DType::kI32, i64 = DType::kI64;
inline constexpr DType u8 = DType::kU8, u16 = DType::kU16, u32 = DType::kU32, u64 = DType::kU64;
inline constexpr DType f16 = DType::kF16, bf16 = DType::kBF16, f32 = DType::kF32, f64 = DType::kF64;

/// What the frontend throws when the user's program is wrong. what() is the text that nablac would print.
class Error : public std::exception {
 public:
  explicit Error(Diagnostics diagnostics) : diagnostics_(std::move(diagnostics)), text_(to_string(diagnostics_)) {}
  explicit Error(Diagnostic diagnostic) : Error(Diagnostics{std::move(diagnostic)}) {}
  const char* what() const noexcept override { return text_.c_str(); }
  const Diagnostics& diagnostics() const { return diagnostics_; }

 private:
  Diagnostics diagnostics_;
  std::string text_;
};

/// A place in the user's source. As a default argument `Site::here()` is the caller's place.
class Site {
 public:
  Site() = default;
  static Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                   const char* function = __builtin_FUNCTION()) {
    return Site(file, line, function);
  }
  const char* file = "";
  int line = 0;
  const char* function = "";

 private:
  // Not from braces: `grad(f, {"b"})` would otherwise take the name for a file.
  Site(const char* f, int l, const char* name) : file(f), line(l), function(name) {}
};

class Frame;

/// A value of a function that is being traced. Cheap to copy. A default-made one has no value.
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<Frame> frame, int id) : frame_(std::move(frame)), id_(id) {}

  bool has_value() const { return frame_ != nullptr; }
  /// The getters throw Error (E0707) when there is no value.
  const ir::Type& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  int rank() const { return type().rank(); }
  /// Extent of dimension `axis`, which may count from the end; E0204 when there is no such dimension or it is symbolic.
  int64_t size(int axis, Site site = Site::here()) const;
  /// A value is never a size: throws E0204, which says so where a tensor stands in a shape.
  operator ir::Dim() const;  // NOLINT: the place of the mistake is the shape
  /// Names the value in printed IR and in diagnostics, and returns it.
  Tensor named(const std::string& name) const;

  const std::shared_ptr<Frame>& frame() const { return frame_; }
  int id() const { return id_; }

 private:
  std::shared_ptr<Frame> frame_;
  int id_ = -1;
};

/// An operand: a tensor or a number, with the place where it was passed. A number takes the dtype of the tensors that
/// it meets.
class Arg {
 public:
  enum class Kind : uint8_t { kTensor, kBool, kInt, kFloat };

  Arg(const Tensor& tensor, Site site = Site::here()) : tensor_(tensor), site_(site) {}  // NOLINT: converts
  template <class T>
  requires std::is_arithmetic_v<T> Arg(T number, Site site = Site::here())  // NOLINT: converts
      : kind_(std::is_same_v<T, bool> ? Kind::kBool
              : std::is_integral_v<T> ? Kind::kInt
                                      : Kind::kFloat),
        number_(static_cast<double>(number)),
        site_(site) {}

  Kind kind() const { return kind_; }
  bool is_tensor() const { return kind_ == Kind::kTensor; }
  const Tensor& tensor() const { return tensor_; }
  double number() const { return number_; }
  const Site& site() const { return site_; }

 private:
  Tensor tensor_;
  Kind kind_ = Kind::kTensor;
  double number_ = 0;
  Site site_;
};

/// At least one operand: `{x, y}` or a vector. Throws Error (E0201) when there is none.
class Args {
 public:
  Args(std::initializer_list<Arg> list) : list_(list) { check_not_empty(); }
  Args(const std::vector<Tensor>& tensors, Site site = Site::here()) {  // NOLINT: converts
    for (const Tensor& t : tensors) list_.emplace_back(t, site);
    check_not_empty();
  }
  const std::vector<Arg>& list() const { return list_; }

 private:
  void check_not_empty() const {
    if (list_.empty()) throw Error(error(Code::kOperandCount, "an op of at least one operand gets none"));
  }
  std::vector<Arg> list_;
};

// Elementwise; shapes are broadcast as in NumPy, dtypes must be equal.
Tensor operator+(const Arg& a, const Arg& b);
Tensor operator-(const Arg& a, const Arg& b);
Tensor operator*(const Arg& a, const Arg& b);
Tensor operator/(const Arg& a, const Arg& b);
Tensor operator%(const Arg& a, const Arg& b);
Tensor operator-(const Arg& a);
Tensor operator==(const Arg& a, const Arg& b);
Tensor operator!=(const Arg& a, const Arg& b);
Tensor operator<(const Arg& a, const Arg& b);
Tensor operator<=(const Arg& a, const Arg& b);
Tensor operator>(const Arg& a, const Arg& b);
Tensor operator>=(const Arg& a, const Arg& b);
Tensor operator&(const Arg& a, const Arg& b);
Tensor operator|(const Arg& a, const Arg& b);
Tensor operator^(const Arg& a, const Arg& b);
Tensor operator!(const Arg& a);

}  // namespace nabla
