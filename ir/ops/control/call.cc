// call: runs another function of the module. Its derivatives are calls of derived functions.
#include "ir/ops/control/call.h"

#include "ir/ops/all_ops.h"
#include "ir/ops/control/control_flow.h"

namespace nabla::ops {

Result<const ir::Function*> find_function(const InferContext& ctx, const std::string& name) {
  const ir::Function* f = ctx.functions ? ctx.functions(name) : nullptr;
  if (!f) return ctx.fail(Code::kUnknownName, "C1", "no function is named @{}", name);
  return f;
}

Result<const ir::Function*> find_callee(const InferContext& ctx) {
  return find_function(ctx, ctx.attrs.get_function("callee"));
}

Types param_types(const ir::Function& f) { return f.types(f.params); }
Types result_types(const ir::Function& f) { return f.types(f.results); }

Status require_count(const InferContext& ctx, size_t expected, const ir::Function& f) {
  if (ctx.operands.size() == expected) return Ok{};
  return ctx.fail(Code::kOperandCount, "C2", "of @{} takes {} operands, got {}", f.name, expected, ctx.operands.size());
}

Status require_types(const InferContext& ctx, std::span<const Type> got, const Types& expected, std::string_view what,
                     const ir::Function& f, std::string_view constraint) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const Type &is = got[i], &want = expected[i];
    if (is.residual_of != want.residual_of || (!want.is_residual() && is.dtype != want.dtype))
      return ctx.fail(Code::kDTypeMismatch, constraint, "{} {} of @{} is {}, got {}", what, i, f.name, want.str(),
                      is.str());
    if (is.rank() != want.rank())
      return ctx.fail(Code::kShapeMismatch, constraint, "{} {} of @{} is {}, got {}", what, i, f.name, want.str(),
                      is.str());
    for (int d = 0; d < want.rank(); ++d)
      NABLA_TRY(ctx.require_equal(is.shape[d], want.shape[d], constraint,
                                  fmt::format("sizes of {} {} of @{} in dimension {}", what, i, f.name, d)));
  }
  return Ok{};
}

Cost call_cost(const TypedOp& op) {
  Cost cost{Dim(0), Dim(0)};
  for (const Type& t : op.operands) cost.bytes = cost.bytes + t.bytes();
  for (const Type& t : op.results) cost.bytes = cost.bytes + t.bytes();
  return cost;
}

std::vector<Val> call_function(FunctionBuilder& b, const std::string& function, std::vector<Val> operands) {
  return b.add("call", std::move(operands), {{"callee", FunctionRef{function}}});
}

ir::VjpForward call_vjp_forward(ir::VjpForwardContext& ctx) {
  std::string forward =
      ctx.functions->derive(ctx.op.attrs.get_function("callee"), ir::Transform::kVjpForward, ctx.active);
  std::vector<Val> all = call_function(ctx.b, forward, ctx.operands);
  auto middle = all.begin() + static_cast<std::ptrdiff_t>(ctx.op.results.size());
  return {{all.begin(), middle}, {middle, all.end()}};
}

std::vector<MaybeVal> call_vjp(VjpContext& ctx) {
  std::string backward = ctx.functions->derive_backward(ctx.attrs().get_function("callee"), ctx.active, ctx.given());
  std::vector<Val> operands = ctx.residuals;
  for (size_t i = 0; i < ctx.results.size(); ++i) operands.push_back(ctx.ct(static_cast<int>(i)));
  std::vector<Val> gradients = call_function(ctx.b, backward, operands);
  std::vector<MaybeVal> out(ctx.operands.size());
  size_t next = 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (ctx.active[i]) out[i] = gradients[next++];
  return out;
}

std::vector<MaybeVal> call_jvp(JvpContext& ctx) {
  std::vector<bool> active;
  std::vector<Val> operands = ctx.operands;
  for (const MaybeVal& t : ctx.tangents) {
    active.push_back(t.has_value());
    if (t) operands.push_back(*t);
  }
  std::string derived = ctx.functions->derive(ctx.attrs().get_function("callee"), ir::Transform::kJvp, active);
  std::vector<Val> all = call_function(ctx.b, derived, operands);
  size_t results = ctx.results.size();
  ctx.results = slice(all, 0, results);
  return {all.begin() + static_cast<std::ptrdiff_t>(results), all.end()};
}

namespace {

InferResult infer_call(const InferContext& ctx) {
  const ir::Function* f = NABLA_TRY(find_callee(ctx));
  if (ctx.operands.size() != f->params.size())
    return ctx.fail(Code::kOperandCount, "C2", "@{} takes {} operands, got {}", f->name, f->params.size(),
                    ctx.operands.size());
  NABLA_TRY(require_types(ctx, ctx.operands, param_types(*f), "operand", *f));
  return result_types(*f);
}

std::vector<Val> call_batch(BatchContext& ctx) {
  std::vector<bool> any(ctx.op.results.size(), false);
  ir::BatchedFunction f = ctx.functions->batch(ctx.attrs().get_function("callee"), ctx.batched, any);
  ctx.results_batched = f.results;
  return call_function(ctx.b, f.name, ctx.operands);
}

}  // namespace

OpDef call_record(std::string name, std::string doc, std::vector<AttrDef> attrs,
                  std::vector<ir::Constraint> constraints) {
  constexpr const char* kInlined = "calls are inlined before this is asked";
  attrs.insert(attrs.begin(), required("callee", AttrKind::kFunction, "the function"));
  return {
      .name = std::move(name),
      .version = 1,
      .category = "call",
      .doc = std::move(doc),
      .operands = {{"operands", "the callee's parameters", true, true}},
      .attrs = std::move(attrs),
      .results = {{"results", "the callee's results"}},
      .constraints = std::move(constraints),
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_call,
      .reference =
          [](const EvalContext& ctx) {
            return ctx.call(ctx.attrs().get_function("callee"), {ctx.operands.begin(), ctx.operands.end()});
          },
      .fold = ir::no_rule(kInlined),
      .decompose = ir::no_rule(kInlined),
      .vjp = call_vjp,
      .vjp_forward = call_vjp_forward,
      .jvp = call_jvp,
      .batch = call_batch,
      .factors = ir::no_rule(kInlined),
      .access = ir::no_rule(kInlined),
      .linearity = ir::not_linear(),
      .lower = Lowering::kCall,
      .cost = call_cost,
      .dtypes = DTypes::kAsWritten,
      .examples = {},
      .draw = nullptr,
      .rejects = {},
  };
}

std::vector<OpDef> call_ops() {
  std::vector<OpDef> out = transform_ops();
  OpDef call = call_record("call",
                            "The results of another function of the module. Functions never call each other in a "
                            "cycle. Derivatives are calls "
                            "of derived functions, made once for each set of active operands.",
                            {},
                            {{"C1", "the callee exists"}, {"C2", "the operands have the types of its parameters"}});
  call.factors = control_factors;
  out.push_back(std::move(call));
  return out;
}

}  // namespace nabla::ops
