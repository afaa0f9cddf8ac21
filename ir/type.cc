#include "ir/type.h"

#include <algorithm>

namespace nabla::ir {

Type Type::residual(std::string function) {
  Type t;
  t.residual_of = std::move(function);
  return t;
}

bool Type::is_static() const {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_static(); });
}

Dim Type::count() const {
  Dim n(1);
  for (const Dim& d : shape) n = n * d;
  return n;
}

Dim Type::bytes() const { return count() * Dim(bytes_of(dtype)); }

std::vector<int64_t> Type::extents() const {
  std::vector<int64_t> out;
  for (const Dim& d : shape) out.push_back(d.value());
  return out;
}

std::string str(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? "," : "") + shape[i].str();
  return out + "]";
}

std::string Type::str() const {
  if (is_residual()) return "residual<@" + residual_of + ">";
  return std::string(name_of(dtype)) + ir::str(shape);
}

Shape static_shape(const std::vector<int64_t>& extents) { return Shape(extents.begin(), extents.end()); }

}  // namespace nabla::ir
