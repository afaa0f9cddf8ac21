// Transforms of functions, as calls: grad, value_and_grad, jvp, vjp_forward, vjp_backward. Only their types are
// known here; the pass lower_transforms replaces them.
#include "ir/ops/call.h"

namespace nabla::ops {
namespace {

constexpr const char* kReplaced = "replaced by lower_transforms";

OpDef transform_op(std::string name, std::string doc, std::vector<OperandDef> operands, std::vector<AttrDef> attrs,
                   ResultDef results, std::vector<ir::Constraint> constraints,
                   std::function<InferResult(const InferContext&)> infer) {
  attrs.insert(attrs.begin(), required("callee", AttrKind::kFunction, "the function to transform"));
  constraints.insert(constraints.begin(), {"C1", "the callee exists"});
  return {
      .name = std::move(name),
      .version = 1,
      .category = "transform",
      .doc = std::move(doc),
      .operands = std::move(operands),
      .attrs = std::move(attrs),
      .results = {std::move(results)},
      .constraints = std::move(constraints),
      .traits = {},
      .stages = ir::stages(ir::Stage::kTraced, ir::Stage::kTraced),
      .infer = std::move(infer),
      .reference = ir::no_rule(kReplaced),
      .fold = ir::no_rule(kReplaced),
      .decompose = ir::no_rule(kReplaced),
      .vjp = ir::not_differentiable(kReplaced),
      .jvp = ir::not_differentiable(kReplaced),
      .batch = ir::no_rule(kReplaced),
      .factors = ir::no_rule(kReplaced),
      .access = ir::no_rule(kReplaced),
      .linearity = ir::not_linear(),
      .lower = Lowering::kTransform,
      .cost =
          [](const TypedOp&) {
            return Cost{Dim(0), Dim(0)};
          },
      .dtypes = DTypes::kAsWritten,
      .examples = {},
      .draw = nullptr,
      .rejects = {},
  };
}

Status require_count(const InferContext& ctx, size_t expected, const ir::Function& f) {
  if (ctx.operands.size() == expected) return Ok{};
  return ctx.fail(Code::kOperandCount, "C2", "of @{} takes {} operands, got {}", f.name, expected, ctx.operands.size());
}

// Checks a call of grad and appends the gradients' types to `results`.
InferResult infer_gradients(const InferContext& ctx, bool with_values) {
  const ir::Function* f = NABLA_TRY(find_callee(ctx));
  NABLA_TRY(require_count(ctx, f->params.size(), *f));
  Types params = param_types(*f), results = result_types(*f);
  NABLA_TRY(require_types(ctx, 0, params, "operand"));
  if (results.empty()) return ctx.fail(Code::kNotScalar, "C3", "@{} has no result", f->name);
  if (results[0].rank() != 0 || !is_float(results[0].dtype))
    return ctx.fail(Code::kNotScalar, "C3", "the first result of @{} is {}", f->name, results[0].str());
  Types out = with_values ? results : Types{};
  std::vector<bool> seen(params.size(), false);
  for (int64_t i : ctx.attrs.get_ints("wrt")) {
    if (i < 0 || i >= static_cast<int64_t>(params.size()))
      return ctx.fail(Code::kBadAttribute, "C4", "wrt names parameter {} of @{}, which has {}", i, f->name,
                      params.size());
    if (seen[i]) return ctx.fail(Code::kBadAttribute, "C4", "wrt names parameter {} twice", i);
    seen[i] = true;
    if (!is_float(params[i].dtype))
      return ctx.fail(Code::kNotDifferentiable, "C5", "parameter {} of @{} is {}", ir::value_name(*f, f->params[i]),
                      f->name, params[i].str());
    out.push_back(params[i]);
  }
  if (seen.empty() || ctx.attrs.get_ints("wrt").empty())
    return ctx.fail(Code::kBadAttribute, "C4", "wrt names no parameter of @{}", f->name);
  return out;
}

InferResult infer_jvp(const InferContext& ctx) {
  const ir::Function* f = NABLA_TRY(find_callee(ctx));
  Types params = param_types(*f), results = result_types(*f);
  NABLA_TRY(require_count(ctx, 2 * params.size(), *f));
  NABLA_TRY(require_types(ctx, 0, params, "operand"));
  NABLA_TRY(require_types(ctx, params.size(), params, "tangent"));
  Types out = results;
  out.insert(out.end(), results.begin(), results.end());
  return out;
}

InferResult infer_vjp_forward(const InferContext& ctx) {
  const ir::Function* f = NABLA_TRY(find_callee(ctx));
  NABLA_TRY(require_count(ctx, f->params.size(), *f));
  NABLA_TRY(require_types(ctx, 0, param_types(*f), "operand"));
  Types out = result_types(*f);
  out.push_back(Type::residual(f->name));
  return out;
}

InferResult infer_vjp_backward(const InferContext& ctx) {
  const ir::Function* f = NABLA_TRY(find_callee(ctx));
  NABLA_TRY(require_count(ctx, 1 + f->results.size(), *f));
  if (ctx.operands[0].residual_of != f->name)
    return ctx.fail(Code::kDTypeMismatch, "C3", "the residual must be residual<@{}>, got {}", f->name,
                    ctx.operands[0].str());
  NABLA_TRY(require_types(ctx, 1, result_types(*f), "cotangent"));
  return param_types(*f);
}

std::vector<ir::Constraint> grad_constraints() {
  return {{"C2", "the operands have the types of the callee's parameters"},
          {"C3", "the callee's first result is a floating scalar"},
          {"C4", "wrt names at least one parameter, each once"},
          {"C5", "the parameters that wrt names are floating"}};
}

}  // namespace

std::vector<OpDef> transform_ops() {
  OperandDef arguments{"operands", "the callee's parameters", true, true};
  std::vector<OpDef> out;
  out.push_back(transform_op("grad", "Gradients of the callee's first result, a floating scalar, by some parameters.",
                             {arguments}, {required("wrt", AttrKind::kInts, "positions of the parameters")},
                             {"gradients", "of the types of those parameters"}, grad_constraints(),
                             [](const InferContext& ctx) { return infer_gradients(ctx, false); }));
  out.push_back(transform_op("value_and_grad", "The callee's results, then the gradients of the first one.",
                             {arguments}, {required("wrt", AttrKind::kInts, "positions of the parameters")},
                             {"results", "the callee's results, then the gradients"}, grad_constraints(),
                             [](const InferContext& ctx) { return infer_gradients(ctx, true); }));
  out.push_back(transform_op(
      "jvp",
      "The callee's results and their derivatives in the direction of the tangents. Tangents of integers are ignored.",
      {{"operands", "the callee's parameters, then a tangent of each", true, true}}, {},
      {"results", "the callee's results, then a tangent of each"},
      {{"C2", "operands and tangents have the types of the parameters"}}, infer_jvp));
  out.push_back(transform_op("vjp_forward", "The callee's results, and what vjp_backward needs.", {arguments}, {},
                             {"results", "the callee's results, then residual<@callee>"},
                             {{"C2", "the operands have the types of the callee's parameters"}}, infer_vjp_forward));
  out.push_back(transform_op(
      "vjp_backward",
      "Pulls cotangents of the callee's results back to its parameters. A residual may be used more than once. Integer "
      "parameters get zeros.",
      {{"residual", "from vjp_forward of the same callee"}, {"cotangents", "one per result", true, true}}, {},
      {"gradients", "one per parameter, of its type"},
      {{"C2", "the cotangents have the types of the callee's results"}, {"C3", "the residual is the callee's"}},
      infer_vjp_backward));
  return out;
}

}  // namespace nabla::ops
