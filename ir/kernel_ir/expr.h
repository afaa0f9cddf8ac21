// Scalar expressions over axes: the right-hand sides and index maps of kernels.
// Immutable and shared; == is structural. Index expressions have dtype i64.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/dim.h"
#include "ir/kernel_ir/scalar.h"
#include "runtime/base/dtype.h"

namespace nabla::kernel_ir {

class Expr;

enum class ExprKind : uint8_t {
  kConst,  ///< a number of `dtype`
  kDim,    ///< a symbolic extent, i64
  kAxis,   ///< the position on axis `ref`, i64
  kLoad,   ///< tensor `ref` at `args`; where `guard` is false nothing is read and the value is `fill`
  kValue,  ///< value `ref` (an earlier definition or let) at `args`
  kCall,   ///< `fn` of `args`
};

struct ExprNode;

class Expr {
 public:
  Expr() = default;  ///< null
  explicit operator bool() const { return node_ != nullptr; }
  const ExprNode& operator*() const { return *node_; }
  const ExprNode* operator->() const { return node_.get(); }
  bool operator==(const Expr& other) const;
  const ExprNode* id() const { return node_.get(); }
  /// Whether nothing else holds the node: a walk that came to it cannot come again.
  bool only_holder() const { return node_.use_count() == 1; }

 private:
  friend Expr make(ExprNode node);
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  std::shared_ptr<const ExprNode> node_;
};

struct ExprNode {
  ExprKind kind;
  DType dtype;
  double number = 0;             ///< kConst of a float dtype
  int64_t integer = 0;           ///< kConst of an integer dtype or bool
  ir::Dim dim;                   ///< kDim
  int ref = -1;                  ///< kAxis, kLoad, kValue
  const ScalarFn* fn = nullptr;  ///< kCall
  std::vector<Expr> args;
  Expr guard, fill;  ///< kLoad only; both or none
  size_t hash = 0;   ///< set by make()
};

Expr make(ExprNode node);  ///< computes the hash
struct ExprHash {
  size_t operator()(const Expr& e) const { return e->hash; }
};

// ---- Construction. Calls on constants fold; x*1, x+0 and the like simplify for index expressions.
Expr constant(DType dtype, double value);
Expr constant_int(DType dtype, int64_t value);
Expr index(int64_t value);   ///< an i64 constant
Expr dim(const ir::Dim& d);  ///< index(value) where static
Expr axis(int id);
Expr load(DType dtype, int tensor, std::vector<Expr> indices);
Expr guarded_load(DType dtype, int tensor, std::vector<Expr> indices, Expr guard, Expr fill);
Expr value(DType dtype, int id, std::vector<Expr> indices);
/// Aborts when the name is unknown, the arity is wrong or the operand dtypes differ where they must not.
Expr call(std::string_view fn, std::vector<Expr> args);
Expr call_as(DType result, std::string_view fn, std::vector<Expr> args);  ///< for ResultKind::kFirst
Expr convert(DType to, Expr e);                                           ///< no node when the dtype is `to` already
bool is_convert(const Expr& e);                                           ///< a call of "convert"
Expr without_converts(Expr e);                                           ///< x, if e is convert(convert(x))
Expr select(Expr predicate, Expr on_true, Expr on_false);

inline Expr operator+(Expr a, Expr b) { return call("add", {std::move(a), std::move(b)}); }
inline Expr operator-(Expr a, Expr b) { return call("sub", {std::move(a), std::move(b)}); }
inline Expr operator*(Expr a, Expr b) { return call("mul", {std::move(a), std::move(b)}); }
inline Expr operator/(Expr a, Expr b) { return call("div", {std::move(a), std::move(b)}); }
Expr floordiv(Expr a, const ir::Dim& b);  ///< index arithmetic, rounds towards minus infinity
Expr mod(Expr a, const ir::Dim& b);       ///< in [0, b)
inline Expr eq(Expr a, Expr b) { return call("eq", {std::move(a), std::move(b)}); }
inline Expr lt(Expr a, Expr b) { return call("lt", {std::move(a), std::move(b)}); }
inline Expr le(Expr a, Expr b) { return call("le", {std::move(a), std::move(b)}); }
inline Expr ge(Expr a, Expr b) { return call("ge", {std::move(a), std::move(b)}); }
inline Expr both(Expr a, Expr b) { return call("and", {std::move(a), std::move(b)}); }

// ---- Queries and rewriting.
/// The expression with every node replaced for which `f` returns a non-null expression (children first are not
/// visited then); everything else is rebuilt only where a child changed.
Expr rewrite(const Expr& e, const std::function<Expr(const Expr&)>& f);
/// Replaces axes by expressions.
Expr substitute_axes(const Expr& e, const std::map<int, Expr>& replacement);
/// Calls `f` once for every distinct node, operands first.
void visit(const Expr& e, const std::function<void(const Expr&)>& f);
bool uses_axis(const Expr& e, int axis);

/// constant + sum of coefficient * axis. Nullopt where the expression is not affine; sizes may be symbolic.
struct Affine {
  ir::Dim constant;
  std::map<int, ir::Dim> coefficients;  ///< by axis, never 0
  ir::Dim of(int axis) const;
};
std::optional<Affine> as_affine(const Expr& index);

}  // namespace nabla::kernel_ir
