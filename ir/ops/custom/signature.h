// The shape rule of a kernel of the user's: "T[n,d], f32[d] -> T[n], i32[n,2*d]".
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/ops/common.h"

namespace nabla::ops {

/// Names stand for extents. They are symbols of the signature alone; `Binding` says what they are in a node.
struct Signature {
  struct Tensor {
    std::optional<DType> dtype;  ///< none: T
    Shape shape;
  };
  std::vector<Tensor> operands, results;
  std::vector<ir::SymbolRef> names;  ///< in order of first appearance
  bool has_type_variable() const;
};

/// Reads a signature. A name is bound where it is first seen, alone, as an extent of an operand; all other extents are
/// expressions over bound names (docs/user-kernels.md). The error says what is wrong, and where in the text.
Result<Signature> parse_signature(const std::string& text);

/// What the names and T are.
struct Binding {
  std::map<std::string, Dim> sizes;
  std::optional<DType> type;
  Shape shape(const Shape& of) const;
  ir::Type type_of(const Signature::Tensor& t) const;
};

/// Binds the names to the operands' extents after their first `leading` ones. E0201, E0202, E0203, E0207 with
/// `constraint` where operands do not fit; the text names both operands and both extents.
Result<Binding> bind_signature(const InferContext& ctx, const Signature& s, int64_t leading,
                               std::string_view constraint);
/// The same for operands that fit.
Binding bind_checked(const Signature& s, const std::vector<Type>& operands, int64_t leading);

/// What the text says where names have these sizes: "ceildiv(n, 256)". The error says what is wrong, and where.
Result<Dim> evaluate_size(const std::string& text, const std::map<std::string, Dim>& names);

/// The text "nd,d->n" taken apart: letters per operand and per result.
struct FactorText {
  std::vector<std::string> operands, results;
};
/// Nothing where the text has another form.
std::optional<FactorText> parse_factor_text(const std::string& text);

}  // namespace nabla::ops
