// What call and the transforms of functions share.
#pragma once

#include "ir/ops/common.h"

namespace nabla::ops {

/// The function that attribute `callee` names; E0107 with C1 when there is none.
Result<const ir::Function*> find_callee(const InferContext& ctx);
/// E0201 or E0202 / E0203 with C2 unless operands [first, first + n) have these types.
Status require_types(const InferContext& ctx, size_t first, const Types& expected, std::string_view what);
Types param_types(const ir::Function& f);
Types result_types(const ir::Function& f);

std::vector<OpDef> transform_ops();  ///< grad, value_and_grad, jvp, vjp_forward, vjp_backward: in `traced` only

}  // namespace nabla::ops
