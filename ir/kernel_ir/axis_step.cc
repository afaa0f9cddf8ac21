#include "ir/kernel_ir/axis_step.h"

namespace nabla::kernel_ir {

std::optional<AxisStep> as_axis_step(const Expr& e) {
  if (e->kind != ExprKind::kCall || e->args.size() != 2 || e->args[0]->dtype != DType::kI64) return std::nullopt;
  const bool lt = e->fn->name == "lt", le = e->fn->name == "le", ge = e->fn->name == "ge", gt = e->fn->name == "gt";
  if (!lt && !le && !ge && !gt) return std::nullopt;
  std::optional<Affine> place = as_affine(e->args[0]), limit = as_affine(e->args[1]);
  if (!place || !limit || place->coefficients.size() != 1 || !limit->coefficients.empty()) return std::nullopt;
  const auto& [axis, coefficient] = *place->coefficients.begin();
  if (!coefficient.is(1)) return std::nullopt;
  ir::Dim at = limit->constant - place->constant;
  return AxisStep{axis, le || gt ? at + 1 : at, lt || le};
}

}  // namespace nabla::kernel_ir
