// Elementwise ops are rows: what differs between them stands in an ElementwiseSpec, and one function makes the record.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/ops/common.h"

namespace nabla::ops {

/// The dtypes that all operands may have.
enum class Domain : uint8_t { kFloat, kNumeric, kBits, kAny, kInteger };

/// What a derivative rule sees. An elementwise Jacobian is diagonal, so tangents and cotangents take the same way.
struct Push {
  Val t;  ///< the tangent of one operand, or the cotangent of the result
  std::vector<Val> x;
  Val y;
};
/// t times the partial derivative by one operand; a null function is a partial derivative that is 0 everywhere.
using PushRule = Val (*)(const Push&);

struct ElementwiseSpec {
  std::string name, doc;
  std::vector<OperandDef> operands;  ///< all of one type
  Domain domain = Domain::kFloat;
  bool predicate = false;  ///< the result is bool
  /// Meaning for floats; null where the domain has none. Predicates return 0 or 1.
  double (*on_floats)(const double* x) = nullptr;
  /// Meaning for integers and bool, before wrapping to the dtype; null where the domain has none.
  int64_t (*on_ints)(DType dtype, const int64_t* x) = nullptr;
  /// Scalar expression; null: the scalar function of the op's name.
  kernel_ir::Expr (*expr)(const std::vector<kernel_ir::Expr>& x) = nullptr;
  std::string refusal;         ///< not empty: why there is no derivative
  std::vector<PushRule> push;  ///< per operand
  ir::OpForm form = ir::OpForm::kOther;
  std::optional<ir::Dim> (*as_size)(const ir::SizeContext&) = nullptr;
  ir::Linearity linearity = ir::not_linear();
  bool commutative = false;
  int flops = 1;
  std::vector<ValueSpec> values;  ///< where examples draw from, per operand
};

OpDef make_elementwise(ElementwiseSpec spec);
/// A fragment of one map over the first result's shape, whose value is `value` of the result's axes.
kernel_ir::Fragment map_fragment(const TypedOp& op,
                                 const std::function<kernel_ir::Expr(const std::vector<kernel_ir::Expr>&)>& value);

std::vector<OpDef> unary_ops();
std::vector<OpDef> binary_ops();
/// select, clamp and convert: their operands' types differ.
std::vector<OpDef> other_elementwise_ops();

/// Adds the op of this name, with one or two operands.
inline Val apply(const char* op, Val x) { return x.b->op(op, {x}); }
inline Val apply(const char* op, Val a, Val b) { return a.b->op(op, {a, b}); }
/// Returns slope(x), or 0 if x is infinite. Its derivative at infinity is 0 too; without the select it would be 0 * inf. `slope` is
/// evaluated at 0.5 in place of infinity and must be finite there.
inline Val vanishing(Val x, Val (*slope)(Val)) {
  Val far = apply("is_inf", x);
  return ir::select(far, x.b->zeros_like(x), slope(ir::select(far, x.b->like(x, 0.5), x)));
}
/// Returns the low bits of x that an integer of this dtype stores.
inline uint64_t low_bits(DType d, int64_t x) { return static_cast<uint64_t>(x) & (~uint64_t{0} >> (64 - 8 * bytes_of(d))); }

}  // namespace nabla::ops
