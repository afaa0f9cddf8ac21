// The type of a value: element type and shape; in `traced` modules also the opaque residual of a pullback.
#pragma once

#include <string>
#include <vector>

#include "ir/dim.h"
#include "runtime/base/dtype.h"

namespace nabla::ir {

using Shape = std::vector<Dim>;

struct Type {
  DType dtype = DType::kF32;
  Shape shape;
  /// Not empty: this is what `vjp_forward` of that function leaves for `vjp_backward`. Legal in `traced` only.
  std::string residual_of;

  Type() = default;
  Type(DType d, Shape s) : dtype(d), shape(std::move(s)) {}
  static Type residual(std::string function);

  bool is_residual() const { return !residual_of.empty(); }
  int rank() const { return static_cast<int>(shape.size()); }
  bool is_static() const;
  Dim count() const;  ///< elements
  Dim bytes() const;
  std::vector<int64_t> extents() const;  ///< requires is_static()
  bool operator==(const Type&) const = default;
  std::string str() const;  ///< "f32[batch,64]", "residual<@f>"
};

std::string str(const Shape& shape);  ///< "[batch,64]"
/// A shape of integers.
Shape static_shape(const std::vector<int64_t>& extents);

}  // namespace nabla::ir
