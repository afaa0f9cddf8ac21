// The only way to make nodes: every one is checked as it is added, so that no ill-typed function exists.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace nabla::ir {

class OpTable;
class FunctionBuilder;

/// A value of the function under construction, with the operators of its op set. Cheap to copy. The operands of
/// an operator have the same type: there is no implicit broadcasting below the frontend.
struct Val {
  FunctionBuilder* b = nullptr;
  ValueId id = -1;
  const Type& type() const;
  const Shape& shape() const { return type().shape; }
  int rank() const { return type().rank(); }
  DType dtype() const { return type().dtype; }
  bool operator==(const Val&) const = default;
};

class FunctionBuilder {
 public:
  /// `module` gives the types of called functions; it may be null, and must outlive the builder.
  FunctionBuilder(std::string name, const OpTable& ops, const Module* module = nullptr);
  FunctionBuilder(const FunctionBuilder&) = delete;

  Val param(std::string name, Type type);
  /// For input that may be wrong: attributes are completed, types inferred, diagnostics carry `location` and
  /// where the operands came from.
  Result<std::vector<Val>> try_add(std::string_view op, std::vector<Val> operands, Attrs attrs);
  /// For our own code: aborts where try_add would fail.
  std::vector<Val> add(std::string_view op, std::vector<Val> operands, Attrs attrs = {});
  Val op(std::string_view op, std::vector<Val> operands, Attrs attrs = {});  ///< the first result
  /// A node as it stands, with new operands. Types of the results are inferred again.
  std::vector<Val> clone(const Node& node, std::vector<Val> operands);
  /// The same for a node of `from` that names no functions: where the operands have the types that they have there, so
  /// have the results.
  std::vector<Val> clone(const Node& node, const Function& from, std::vector<Val> operands);

  /// New nodes carry this location until it is changed.
  void set_location(LocationRef location) { location_ = std::move(location); }
  const LocationRef& location() const { return location_; }
  /// New nodes carry this as Node::computes until it is changed.
  void set_computes(std::vector<int> nodes) { computes_ = std::move(nodes); }
  void name_value(Val v, std::string name);
  void lay_out(Val v, ShardingRef sharding) { function_.values[v.id].sharding = std::move(sharding); }
  /// Makes room for so many nodes.
  void reserve(size_t nodes) { function_.nodes.reserve(nodes); }

  Val constant(const Literal& literal);
  /// A scalar constant of `dtype` broadcast to `shape`.
  Val fill(DType dtype, const Shape& shape, double value);
  Val zeros_like(Val v) { return fill(v.dtype(), v.shape(), 0); }
  Val like(Val v, double value) { return fill(v.dtype(), v.shape(), value); }

  const Function& function() const { return function_; }
  /// Stays valid while the builder lives, so that rules may hold it across additions.
  const Type& type(ValueId id) const { return function_.type(id); }
  const OpTable& ops() const { return ops_; }
  const Module* module() const { return module_; }
  /// Ends the construction.
  Function finish(const std::vector<Val>& results);

 private:
  std::vector<Val> append(const OpDef& op, const std::vector<Val>& operands, Attrs attrs, std::vector<Type> types);

  Function function_;
  const OpTable& ops_;
  const Module* module_;
  LocationRef location_;
  std::vector<int> computes_;
};

// ---- Sugar for rules and decompositions. All abort on ill-typed operands.
Val operator+(Val a, Val b);
Val operator-(Val a, Val b);
Val operator*(Val a, Val b);
Val operator/(Val a, Val b);
Val operator-(Val a);
Val operator*(Val a, double b);
Val operator+(Val a, double b);
Val operator-(double a, Val b);
/// `v` under `shape`: dimension i of v becomes dimension `dims[i]`; the others are new.
Val broadcast_in_dim(Val v, const Shape& shape, Ints dims);
/// `v`, whose shape lacks the dimensions `axes` of `shape`, broadcast along them.
Val broadcast_along(Val v, const Shape& shape, const Ints& axes);
Val reduce_sum(Val v, Ints axes);
Val reduce_max(Val v, Ints axes);
Val reshape(Val v, Shape shape);
Val transpose(Val v, Ints permutation);
Val select(Val predicate, Val on_true, Val on_false);
Val convert(Val v, DType dtype);
/// 0, 1, ..., rank-1
Ints iota_ints(int n);

}  // namespace nabla::ir
