// Transforms of functions, as calls: grad, value_and_grad, jvp, vjp_forward, vjp_backward, vmap, autocast. Only their
// types are known here; the pass lower_transforms replaces them.
#include <optional>

#include "ir/ops/control/call.h"

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

// E0204 or E0301 unless the positions name floating parameters, each once.
Status require_wrt(const InferContext& ctx, const Ints& positions, const ir::Function& f) {
  std::vector<bool> seen(f.params.size(), false);
  for (int64_t i : positions) {
    if (i < 0 || i >= static_cast<int64_t>(seen.size()))
      return ctx.fail(Code::kBadAttribute, "C4", "wrt names parameter {} of @{}, which has {}", i, f.name, seen.size());
    if (seen[i]) return ctx.fail(Code::kBadAttribute, "C4", "wrt names parameter {} twice", i);
    seen[i] = true;
    const Type& type = f.type(f.params[i]);
    if (!is_float(type.dtype) || type.is_residual())
      return ctx.fail(Code::kNotDifferentiable, "C5", "parameter {} of @{} is {}", ir::value_name(f, f.params[i]),
                      f.name, type.str());
  }
  return Ok{};
}

// Checks a call of grad and appends the gradients' types to `results`.
InferResult infer_gradients(const InferContext& ctx, bool with_values) {
  const ir::Function* f = NABLA_TRY(find_callee(ctx));
  NABLA_TRY(require_count(ctx, f->params.size(), *f));
  Types params = param_types(*f), results = result_types(*f);
  NABLA_TRY(require_types(ctx, ctx.operands, params, "operand", *f));
  if (results.empty()) return ctx.fail(Code::kNotScalar, "C3", "@{} has no result", f->name);
  if (results[0].rank() != 0 || !is_float(results[0].dtype))
    return ctx.fail(Code::kNotScalar, "C3", "the first result of @{} is {}, no floating scalar", f->name,
                    results[0].str());
  Types out = with_values ? results : Types{};
  const Ints& positions = ctx.attrs.get_ints("wrt");
  NABLA_TRY(require_wrt(ctx, positions, *f));
  for (int64_t i : positions) out.push_back(params[i]);
  if (positions.empty()) return ctx.fail(Code::kBadAttribute, "C4", "wrt names no parameter of @{}", f->name);
  return out;
}

InferResult infer_jvp(const InferContext& ctx) {
  const ir::Function* f = NABLA_TRY(find_callee(ctx));
  Types params = param_types(*f), results = result_types(*f), tangents = params;
  const Ints& positions = ctx.attrs.get_ints("wrt");
  NABLA_TRY(require_wrt(ctx, positions, *f));
  if (!positions.empty()) tangents.clear();
  for (int64_t i : positions) tangents.push_back(params[i]);
  NABLA_TRY(require_count(ctx, params.size() + tangents.size(), *f));
  NABLA_TRY(require_types(ctx, ctx.operands, params, "operand", *f));
  NABLA_TRY(require_types(ctx, ctx.operands.subspan(params.size()), tangents, "tangent", *f));
  Types out = results;
  out.insert(out.end(), results.begin(), results.end());
  return out;
}

// in_axes: the operands without the dimension that is mapped, and the extent of that.
Result<Types> unmapped_operands(const InferContext& ctx, const ir::Function& f, std::optional<Dim>& size) {
  const Ints& in_axes = ctx.attrs.get_ints("in_axes");
  if (in_axes.size() != f.params.size())
    return ctx.fail(Code::kBadAttribute, "C3", "in_axes has {} entries, @{} has {} parameters", in_axes.size(), f.name,
                    f.params.size());
  Types out(ctx.operands.begin(), ctx.operands.end());
  for (size_t i = 0; i < out.size(); ++i) {
    if (in_axes[i] == -1) continue;
    int64_t rank = out[i].is_residual() ? 0 : out[i].rank();
    if (in_axes[i] < 0 || in_axes[i] >= rank)
      return ctx.fail(Code::kBadAttribute, "C3", "in_axes maps dimension {} of operand {}, which is {}", in_axes[i], i,
                      out[i].str());
    Dim extent = out[i].shape[in_axes[i]];
    if (size)
      NABLA_TRY(ctx.require_equal(extent, *size, "C4", "the extents of the mapped dimensions"));
    else
      size = extent;
    out[i].shape.erase(out[i].shape.begin() + in_axes[i]);
  }
  return out;
}

InferResult infer_vmap(const InferContext& ctx) {
  const ir::Function* f = NABLA_TRY(find_callee(ctx));
  NABLA_TRY(require_count(ctx, f->params.size(), *f));
  const Shape& given = ctx.attrs.get_shape("size");
  if (given.size() > 1) return ctx.fail(Code::kBadAttribute, "C4", "size is {}, expected one extent", ir::str(given));
  std::optional<Dim> size;
  if (!given.empty()) size = given[0];
  Types operands = NABLA_TRY(unmapped_operands(ctx, *f, size));
  if (!size) return ctx.fail(Code::kBadAttribute, "C4", "no operand is mapped and size is not given");
  NABLA_TRY(require_types(ctx, operands, param_types(*f), "operand", *f));
  const Ints& out_axes = ctx.attrs.get_ints("out_axes");
  Types out = result_types(*f);
  if (out_axes.size() != out.size())
    return ctx.fail(Code::kBadAttribute, "C5", "out_axes has {} entries, @{} has {} results", out_axes.size(), f->name,
                    out.size());
  for (size_t r = 0; r < out.size(); ++r) {
    if (out[r].is_residual())
      return ctx.fail(Code::kDTypeMismatch, "C5", "result {} of @{} is {}", r, f->name, out[r].str());
    if (out_axes[r] == -1) continue;
    if (out_axes[r] < 0 || out_axes[r] > out[r].rank())
      return ctx.fail(Code::kBadAttribute, "C5", "out_axes puts the batch of result {}, which is {}, at dimension {}",
                      r, out[r].str(), out_axes[r]);
    out[r].shape.insert(out[r].shape.begin() + out_axes[r], *size);
  }
  return out;
}

InferResult infer_vjp_forward(const InferContext& ctx) {
  const ir::Function* f = NABLA_TRY(find_callee(ctx));
  NABLA_TRY(require_count(ctx, f->params.size(), *f));
  NABLA_TRY(require_types(ctx, ctx.operands, param_types(*f), "operand", *f));
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
  NABLA_TRY(require_types(ctx, ctx.operands.subspan(1), result_types(*f), "cotangent", *f));
  return param_types(*f);
}

InferResult infer_autocast(const InferContext& ctx) {
  const ir::Function* f = NABLA_TRY(find_callee(ctx));
  NABLA_TRY(require_count(ctx, f->params.size(), *f));
  NABLA_TRY(require_types(ctx, ctx.operands, param_types(*f), "operand", *f));
  DType dtype = ctx.attrs.get_dtype("dtype");
  if (dtype != DType::kBF16 && dtype != DType::kF16)
    return ctx.fail(Code::kBadAttribute, "C3", "dtype is {}, expected bf16 or f16", name_of(dtype));
  return result_types(*f);
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
      {{"operands", "the callee's parameters, then the tangents", true, true}},
      {optional("wrt", "positions of the parameters that have a tangent; none: all of them", Ints{})},
      {"results", "the callee's results, then a tangent of each"},
      {{"C2", "operands and tangents have the types of the parameters"},
       {"C4", "wrt names parameters of the callee, each once"},
       {"C5", "the parameters that wrt names are floating"}},
      infer_jvp));
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
  out.push_back(transform_op(
      "vmap",
      "The callee on every example of a batch, at once: what does not depend on the example is computed once. Ops "
      "follow "
      "their batch rules; nested transforms are applied first.",
      {{"operands", "the callee's parameters, with one more dimension where in_axes maps one", true, true}},
      {required("in_axes", AttrKind::kInts, "per parameter: the dimension of the operand that is mapped; -1: none"),
       required("out_axes", AttrKind::kInts, "per result: where its batch dimension goes; -1: it has none"),
       optional("size", "one extent: that of the batch; needed when no operand is mapped", Shape{}),
       optional("spmd_axis_name",
                "the mesh axis along which `shard` inside the callee lays out the batch; empty: propagation decides",
                std::string())},
      {"results", "the callee's results, each with the batch where out_axes says"},
      {{"C2", "without their mapped dimensions the operands have the types of the parameters"},
       {"C3", "in_axes has one entry per parameter: a dimension of its operand, or -1"},
       {"C4", "there is a batch, and all its extents are equal"},
       {"C5", "out_axes has one entry per result: a dimension of the batched result, or -1"}},
      infer_vmap));
  out.push_back(transform_op(
      "autocast",
      "The callee, its matrix products and convolutions, also those of composites, in 16-bit floats where they had "
      "f32. "
      "Ops that only move elements follow; everything else is computed in f32, as are parameters and results. "
      "Functions "
      "that the callee calls, loops and branches among them, are treated likewise.",
      {arguments}, {required("dtype", AttrKind::kDType, "bf16 or f16")},
      {"results", "the callee's results, of the same types"},
      {{"C2", "the operands have the types of the callee's parameters"}, {"C3", "dtype is bf16 or f16"}},
      infer_autocast));
  return out;
}

}  // namespace nabla::ops
