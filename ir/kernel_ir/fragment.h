// What an op means element by element: every result as a formula over the operands' elements. This is the
// `access` of an op's record: fusion, the loop nests of both backends and the perturbation test follow from it.
#pragma once

#include <string>
#include <vector>

#include "ir/kernel_ir/expr.h"
#include "ir/kernel_ir/procedure.h"
#include "ir/type.h"

namespace nabla::kernel_ir {

struct Axis {
  std::string name;
  ir::Dim extent;
  bool operator==(const Axis&) const = default;
};

/// How a reduction, or a store to one place from several, combines. max and min propagate NaN.
enum class Combiner : uint8_t { kNone, kSum, kProd, kMax, kMin, kAnd, kOr };
std::string_view name_of(Combiner combiner);  ///< "sum"; "none"
std::optional<Combiner> combiner_from_name(std::string_view name);
/// The neutral element: 0, 1, lowest, highest, true, false.
Expr identity_of(Combiner combiner, DType dtype);
/// "add", "mul", "maximum", "minimum", "and", "or": the scalar function that combines two values.
std::string_view scalar_of(Combiner combiner);

/// name[axes] = combiner over `reduce` of value           (combiner kNone: a map, `reduce` is empty)
/// With `scatter`: name[axes] starts as `value`; then, in row-major order of `update_axes`, where all indices are
/// in range, name[indices] = combine(name[indices], update)  (kNone: the last one wins).
struct Definition {
  std::string name;
  DType dtype;
  std::vector<int> axes;  ///< into Fragment::axes; one per dimension of the defined tensor
  Combiner combiner = Combiner::kNone;
  std::vector<int> reduce;
  Expr value;  ///< loads: operand k is tensor k; kValue: an earlier definition, by position
  bool scatter = false;
  std::vector<int> update_axes;
  std::vector<Expr> indices;
  Expr update;
};

struct Fragment {
  std::vector<Axis> axes;
  std::vector<Definition> definitions;
  std::vector<int> results;  ///< per result of the op: the definition that is it
  /// Not null: the results are made by it, whole, from the whole operands; the definitions then say dtype and axes
  /// alone, one per result.
  std::optional<Procedure> procedure;

  int add_axis(std::string name, ir::Dim extent);
  /// One axis per dimension of `shape`, named prefix0, prefix1...
  std::vector<int> add_axes(std::string_view prefix, const ir::Shape& shape);
  /// Adds a map and returns its position.
  int map(std::string name, DType dtype, std::vector<int> axes, Expr value);
  int reduce(std::string name, DType dtype, std::vector<int> axes, Combiner combiner, std::vector<int> over,
             Expr value);
  /// Adds the next result of the procedure.
  void opaque(std::string name, const ir::Type& type);
  /// The element of definition `d` at these positions (its own axes when none are given).
  Expr at(int d) const;
  Expr at(int d, std::vector<Expr> indices) const;
  /// For people and golden files; one line per definition.
  std::string str() const;
};

std::vector<Expr> axes_as_indices(const std::vector<int>& axes);

}  // namespace nabla::kernel_ir
