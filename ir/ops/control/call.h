// What call and the transforms of functions share.
#pragma once

#include "ir/ops/common.h"

namespace nabla::ops {

/// A function of the module; E0107 with C1 when there is none.
Result<const ir::Function*> find_function(const InferContext& ctx, const std::string& name);
/// The function that attribute `callee` names.
Result<const ir::Function*> find_callee(const InferContext& ctx);
/// E0201 with C2 unless there are so many operands.
Status require_count(const InferContext& ctx, size_t expected, const ir::Function& f);
/// E0202 or E0203 with `constraint` unless `got` has the types that `what` 0, 1... of @f have.
Status require_types(const InferContext& ctx, std::span<const Type> got, const Types& expected, std::string_view what,
                     const ir::Function& f, std::string_view constraint = "C2");
Types param_types(const ir::Function& f);
Types result_types(const ir::Function& f);
/// The bytes of operands and results; what the functions cost stands in their bodies.
Cost call_cost(const TypedOp& op);

template <class T>
std::vector<T> slice(const std::vector<T>& list, size_t begin, size_t end) {
  return {list.begin() + static_cast<std::ptrdiff_t>(begin), list.begin() + static_cast<std::ptrdiff_t>(end)};
}
template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}
/// Rules that derive attribute `callee`.
ir::VjpForward call_vjp_forward(ir::VjpForwardContext& ctx);
std::vector<MaybeVal> call_vjp(VjpContext& ctx);
std::vector<MaybeVal> call_jvp(JvpContext& ctx);

/// The record of an op that calls attribute `callee`, which is put before `attrs`, as `call` does; an op with rules of
/// its own sets them afterwards.
OpDef call_record(std::string name, std::string doc, std::vector<AttrDef> attrs,
                  std::vector<ir::Constraint> constraints);

std::vector<Val> call_function(FunctionBuilder& b, const std::string& function, std::vector<Val> operands);

std::vector<OpDef>
transform_ops();  ///< grad, value_and_grad, jvp, vjp_forward, vjp_backward, vmap, autocast: in `traced` only

}  // namespace nabla::ops
