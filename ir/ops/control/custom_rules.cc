// Calls with rules of the user: custom_vjp, custom_jvp, and remat, whose rule is to compute again. They are calls of
// their callee once nothing differentiates or batches them any more.
#include <algorithm>

#include "ir/ops/all_ops.h"
#include "ir/ops/control/remat.h"

namespace nabla::ops {
namespace {

OpDef custom_rule(std::string name, std::string doc, std::vector<AttrDef> attrs,
                  std::vector<ir::Constraint> constraints) {
  constraints.insert(constraints.begin(), {{"C1", "all functions exist"}, {"C2", "the operands fit the callee"}});
  OpDef op = call_record(std::move(name), std::move(doc), std::move(attrs), std::move(constraints));
  op.dtypes = DTypes::kFloats;
  return op;
}

Result<const ir::Function*> checked_callee(const InferContext& ctx) {
  const ir::Function* f = NABLA_TRY(find_callee(ctx));
  NABLA_TRY(require_count(ctx, f->params.size(), *f));
  NABLA_TRY(require_types(ctx, ctx.operands, param_types(*f), "operand", *f));
  return f;
}

// E0201, E0202 or E0203 unless the parameters of f begin with, or its results are, these types.
Status require_signature(const InferContext& ctx, const Types& got, const Types& expected, const char* what,
                         const ir::Function& f, std::string_view constraint) {
  if (got.size() != expected.size())
    return ctx.fail(Code::kOperandCount, constraint, "@{} has {} {}s, expected {}", f.name, got.size(), what,
                    expected.size());
  return require_types(ctx, expected, got, what, f, constraint);
}

// ---- custom_vjp

InferResult infer_custom_vjp(const InferContext& ctx) {
  const ir::Function* f = NABLA_TRY(checked_callee(ctx));
  const ir::Function* forward = NABLA_TRY(find_function(ctx, ctx.attrs.get_function("forward")));
  const ir::Function* backward = NABLA_TRY(find_function(ctx, ctx.attrs.get_function("backward")));
  Types params = param_types(*f), results = result_types(*f), all = result_types(*forward);
  NABLA_TRY(require_signature(ctx, param_types(*forward), params, "parameter", *forward, "C3"));
  if (all.size() < results.size())
    return ctx.fail(Code::kOperandCount, "C3", "@{} has {} results, @{} has {}", forward->name, all.size(), f->name,
                    results.size());
  NABLA_TRY(require_signature(ctx, slice(all, 0, results.size()), results, "result", *forward, "C3"));
  Types takes = slice(all, results.size(), all.size());
  append(takes, results);
  NABLA_TRY(require_signature(ctx, param_types(*backward), takes, "parameter", *backward, "C4"));
  size_t k = backward->results.size();
  if (k > params.size())
    return ctx.fail(Code::kOperandCount, "C5", "@{} has {} results for {} operands", backward->name, k, params.size());
  NABLA_TRY(require_signature(ctx, result_types(*backward), slice(params, 0, k), "result", *backward, "C5"));
  return results;
}

ir::VjpForward custom_vjp_forward(ir::VjpForwardContext& ctx) {
  std::vector<Val> all = call_function(ctx.b, ctx.attrs().get_function("forward"), ctx.operands);
  size_t n = ctx.op.results.size();
  return {slice(all, 0, n), slice(all, n, all.size())};
}

std::vector<MaybeVal> custom_vjp_backward(VjpContext& ctx) {
  std::vector<Val> args = ctx.residuals;
  for (size_t r = 0; r < ctx.results.size(); ++r) args.push_back(ctx.ct(static_cast<int>(r)));
  std::vector<Val> gradients = call_function(ctx.b, ctx.attrs().get_function("backward"), args);
  std::vector<MaybeVal> out(ctx.operands.size());
  for (size_t i = 0; i < gradients.size(); ++i)
    if (ctx.active[i]) out[i] = gradients[i];
  return out;
}

// Flags of f's parameters from `first` on that are floating.
std::vector<bool> floats_from(const ir::Function& f, size_t first) {
  std::vector<bool> out(f.params.size(), false);
  for (size_t i = first; i < out.size(); ++i) out[i] = is_float(f.type(f.params[i]).dtype);
  return out;
}

// The tangent is the transpose of `backward` as a function of the cotangents.
std::vector<MaybeVal> custom_vjp_tangents(JvpContext& ctx) {
  size_t n = ctx.results.size();
  std::vector<Val> all = call_function(ctx.b, ctx.attrs().get_function("forward"), ctx.operands);
  std::string backward = ctx.attrs().get_function("backward");
  size_t residuals = all.size() - n, gradients = ctx.functions->get(backward).results.size();
  std::vector<bool> cotangents = floats_from(ctx.functions->get(backward), residuals);
  std::string forward = ctx.functions->derive(backward, ir::Transform::kVjpForward, cotangents);
  std::string transpose = ctx.functions->derive(backward, ir::Transform::kVjpBackward, cotangents);
  std::vector<Val> args = slice(all, n, all.size());
  for (size_t r = 0; r < n; ++r) args.push_back(ctx.b.zeros_like(all[r]));
  std::vector<Val> made = call_function(ctx.b, forward, args), kept = slice(made, gradients, made.size());
  for (size_t i = 0; i < gradients; ++i) kept.push_back(ctx.tangent(static_cast<int>(i)));
  std::vector<Val> tangents = call_function(ctx.b, transpose, kept);
  ctx.results = slice(all, 0, n);
  std::vector<MaybeVal> out(n);
  size_t next = 0;
  for (size_t r = 0; r < n; ++r)
    if (cotangents[residuals + r]) out[r] = tangents[next++];
  return out;
}

std::vector<bool> all_true(size_t n) { return std::vector<bool>(n, true); }

std::vector<Val> custom_vjp_batch(BatchContext& ctx) {
  size_t n = ctx.op.results.size();
  Attrs attrs = ctx.attrs();
  std::string backward = attrs.get_function("backward");
  std::vector<bool> forced(ctx.functions->get(attrs.get_function("forward")).results.size(), false);
  std::fill_n(forced.begin(), n, true);
  ir::BatchedFunction callee = ctx.functions->batch(attrs.get_function("callee"), ctx.batched, all_true(n));
  ir::BatchedFunction forward = ctx.functions->batch(attrs.get_function("forward"), ctx.batched, forced);
  std::vector<bool> params = slice(forward.results, n, forward.results.size());
  append(params, all_true(n));
  ir::BatchedFunction each =
      ctx.functions->batch(backward, params, all_true(ctx.functions->get(backward).results.size()));
  // An operand that all examples share gets the sum of their gradients.
  FunctionBuilder w(each.name + ".sum", ctx.b.ops(), ctx.b.module());
  std::vector<Val> args;
  for (const Type& t : param_types(ctx.functions->get(each.name))) args.push_back(w.param("", t));
  std::vector<Val> gradients = call_function(w, each.name, args);
  for (size_t i = 0; i < gradients.size(); ++i)
    if (!ctx.batched[i]) gradients[i] = reduce_sum(gradients[i], {0});
  attrs.set("callee", FunctionRef{callee.name});
  attrs.set("forward", FunctionRef{forward.name});
  attrs.set("backward", FunctionRef{ctx.functions->define(w.finish(gradients))});
  return ctx.b.add("custom_vjp", ctx.operands, attrs);
}

OpDef custom_vjp_op() {
  OpDef op = custom_rule(
      "custom_vjp",
      "The callee, with a derivative in reverse mode of the user's: `forward` runs in its place and says what is kept, "
      "`backward` makes gradients of it. In forward mode the tangent is the transpose of `backward` at cotangents of "
      "0, "
      "which for a linear `backward` is the derivative that it stands for.",
      {required("forward", AttrKind::kFunction, "(operands) -> (results, residuals)"),
       required("backward", AttrKind::kFunction,
                "(residuals, a cotangent per result) -> gradients of the first operands; the others have none")},
      {{"C3", "`forward` takes the callee's parameters and returns its results first"},
       {"C4", "`backward` takes the residuals and a cotangent per result"},
       {"C5", "`backward` returns gradients of the types of the first operands"}});
  op.infer = infer_custom_vjp;
  op.vjp = custom_vjp_backward;
  op.vjp_forward = custom_vjp_forward;
  op.jvp = custom_vjp_tangents;
  op.batch = custom_vjp_batch;
  const char* functions = R"(
func @f(%x: f32[3], %y: f32[]) { %s = sin(%x)  return %s, %y }
func @fwd(%x: f32[3], %y: f32[]) { %s = sin(%x)  %c = cos(%x)  return %s, %y, %c }
func @bwd(%c: f32[3], %g: f32[3], %h: f32[]) { %p = mul(%c, %g)  return %p, %h }
func @other(%x: f32[3]) { return %x }
)";
  auto attrs = [](const char* f, const char* fwd, const char* bwd) {
    return Attrs{{"callee", FunctionRef{f}}, {"forward", FunctionRef{fwd}}, {"backward", FunctionRef{bwd}}};
  };
  op.examples = {{{operand(f32({3})), operand(f32())}, attrs("f", "fwd", "bwd"), functions}};
  op.draw = [e = op.examples[0]](Rng&) { return e; };
  op.rejects = {{"C1", {f32({3}), f32()}, attrs("f", "missing", "bwd"), functions},
                {"C2", {f32({3})}, attrs("f", "fwd", "bwd"), functions},
                {"C3", {f32({3}), f32()}, attrs("f", "other", "bwd"), functions},
                {"C4", {f32({3}), f32()}, attrs("f", "f", "bwd"), functions},
                {"C5", {f32({3})}, attrs("other", "other", "double"), R"(
func @other(%x: f32[3]) { return %x }
func @double(%g: f32[3]) { return %g, %g }
)"}};
  return op;
}

// ---- custom_jvp

InferResult infer_custom_jvp(const InferContext& ctx) {
  const ir::Function* f = NABLA_TRY(checked_callee(ctx));
  const ir::Function* rule = NABLA_TRY(find_function(ctx, ctx.attrs.get_function("rule")));
  Types params = param_types(*f), results = result_types(*f), takes = params;
  size_t n = params.size();
  if (rule->params.size() < n || rule->params.size() > 2 * n)
    return ctx.fail(Code::kOperandCount, "C3", "@{} takes {} operands for {} of @{}", rule->name, rule->params.size(),
                    n, f->name);
  append(takes, slice(params, 0, rule->params.size() - n));
  NABLA_TRY(require_signature(ctx, param_types(*rule), takes, "parameter", *rule, "C3"));
  Types gives = results;
  append(gives, results);
  NABLA_TRY(require_signature(ctx, result_types(*rule), gives, "result", *rule, "C4"));
  return results;
}

std::vector<MaybeVal> custom_jvp_tangents(JvpContext& ctx) {
  const ir::Function& rule = ctx.functions->get(ctx.attrs().get_function("rule"));
  std::vector<Val> args = ctx.operands;
  for (size_t i = 0; args.size() < rule.params.size(); ++i) args.push_back(ctx.tangent(static_cast<int>(i)));
  std::vector<Val> all = call_function(ctx.b, rule.name, args);
  size_t n = ctx.results.size();
  ctx.results = slice(all, 0, n);
  return {all.begin() + static_cast<std::ptrdiff_t>(n), all.end()};
}

// The rule is linear in the tangents: reverse mode transposes it there, at tangents of 0.
std::vector<bool> transposed_params(const ir::Function& rule, const std::vector<bool>& active) {
  std::vector<bool> out = floats_from(rule, active.size());
  for (size_t i = active.size(); i < out.size(); ++i) out[i] = out[i] && active[i - active.size()];
  return out;
}

ir::VjpForward custom_jvp_forward(ir::VjpForwardContext& ctx) {
  const ir::Function& rule = ctx.functions->get(ctx.attrs().get_function("rule"));
  std::vector<bool> active = transposed_params(rule, ctx.active);
  std::string forward = ctx.functions->derive(rule.name, ir::Transform::kVjpForward, active);
  std::vector<Val> args = ctx.operands;
  for (size_t i = 0; args.size() < active.size(); ++i) args.push_back(ctx.b.zeros_like(ctx.operands[i]));
  std::vector<Val> all = call_function(ctx.b, forward, args);
  size_t n = ctx.op.results.size();
  return {slice(all, 0, n), slice(all, 2 * n, all.size())};
}

std::vector<MaybeVal> custom_jvp_backward(VjpContext& ctx) {
  const ir::Function& rule = ctx.functions->get(ctx.attrs().get_function("rule"));
  std::vector<bool> active = transposed_params(rule, ctx.active);
  std::string backward = ctx.functions->derive(rule.name, ir::Transform::kVjpBackward, active);
  std::vector<Val> args = ctx.residuals;
  for (Val y : ctx.results) args.push_back(ctx.b.zeros_like(y));
  for (size_t r = 0; r < ctx.results.size(); ++r) args.push_back(ctx.ct(static_cast<int>(r)));
  std::vector<Val> gradients = call_function(ctx.b, backward, args);
  std::vector<MaybeVal> out(ctx.operands.size());
  size_t next = 0, n = out.size();
  for (size_t i = n; i < active.size(); ++i)
    if (active[i]) out[i - n] = gradients[next++];
  return out;
}

std::vector<Val> custom_jvp_batch(BatchContext& ctx) {
  Attrs attrs = ctx.attrs();
  const ir::Function& rule = ctx.functions->get(attrs.get_function("rule"));
  size_t n = ctx.op.results.size();
  std::vector<bool> params = ctx.batched;
  for (size_t i = 0; params.size() < rule.params.size(); ++i) params.push_back(ctx.batched[i]);
  std::string callee = ctx.functions->batch(attrs.get_function("callee"), ctx.batched, all_true(n)).name;
  attrs.set("rule", FunctionRef{ctx.functions->batch(rule.name, params, all_true(2 * n)).name});
  attrs.set("callee", FunctionRef{callee});
  return ctx.b.add("custom_jvp", ctx.operands, attrs);
}

OpDef custom_jvp_op() {
  OpDef op = custom_rule(
      "custom_jvp",
      "The callee, with a derivative of the user's: `rule` makes the results and their tangents. It is linear in the "
      "tangents, so that reverse mode can transpose it.",
      {required("rule", AttrKind::kFunction,
                "(operands, tangents of the first operands) -> (results, a tangent of each); the other operands count "
                "as constant")},
      {{"C3", "`rule` takes the callee's parameters and tangents of the first ones"},
       {"C4", "`rule` returns the callee's results and a tangent of each"}});
  op.infer = infer_custom_jvp;
  op.vjp = custom_jvp_backward;
  op.vjp_forward = custom_jvp_forward;
  op.jvp = custom_jvp_tangents;
  op.batch = custom_jvp_batch;
  const char* functions = R"(
func @f(%x: f32[3], %y: f32[]) { %s = sin(%x)  return %s, %y }
func @rule(%x: f32[3], %y: f32[], %tx: f32[3], %ty: f32[]) {
  %s = sin(%x)
  %c = cos(%x)
  %p = mul(%c, %tx)
  return %s, %y, %p, %ty
}
func @none(%x: f32[3]) { return %x }
)";
  auto attrs = [](const char* f, const char* rule) {
    return Attrs{{"callee", FunctionRef{f}}, {"rule", FunctionRef{rule}}};
  };
  op.examples = {{{operand(f32({3})), operand(f32())}, attrs("f", "rule"), functions}};
  op.draw = [e = op.examples[0]](Rng&) { return e; };
  op.rejects = {{"C1", {f32({3}), f32()}, attrs("f", "missing"), functions},
                {"C2", {f32({3})}, attrs("f", "rule"), functions},
                {"C3", {f32({3}), f32()}, attrs("f", "none"), functions},
                {"C4", {f32({3}), f32()}, attrs("f", "f"), functions}};
  return op;
}

// ---- remat

InferResult infer_remat(const InferContext& ctx) {
  const ir::Function* f = NABLA_TRY(checked_callee(ctx));
  const std::string& policy = ctx.attrs.get_string("policy");
  if (policy != "nothing" && policy != "dots" && policy != "names")
    return ctx.fail(Code::kBadAttribute, "C3", "policy is \"{}\", expected \"nothing\", \"dots\" or \"names\"", policy);
  if ((policy == "names") == ctx.attrs.get_string("names").empty())
    return ctx.fail(Code::kBadAttribute, "C4", "policy is \"{}\" and names is \"{}\"", policy,
                    ctx.attrs.get_string("names"));
  return result_types(*f);
}

std::vector<MaybeVal> remat_jvp(JvpContext& ctx) {
  std::vector<bool> active;
  std::vector<Val> operands = ctx.operands;
  for (const MaybeVal& t : ctx.tangents) {
    active.push_back(t.has_value());
    if (t) operands.push_back(*t);
  }
  Attrs attrs = ctx.attrs();
  attrs.set("callee", FunctionRef{ctx.functions->derive(attrs.get_function("callee"), ir::Transform::kJvp, active)});
  std::vector<Val> all = ctx.b.add("remat", operands, attrs);
  size_t n = ctx.results.size();
  ctx.results = slice(all, 0, n);
  return {all.begin() + static_cast<std::ptrdiff_t>(n), all.end()};
}

std::vector<Val> remat_batch(BatchContext& ctx) {
  Attrs attrs = ctx.attrs();
  std::vector<bool> any(ctx.op.results.size(), false);
  ir::BatchedFunction f = ctx.functions->batch(attrs.get_function("callee"), ctx.batched, any);
  ctx.results_batched = f.results;
  attrs.set("callee", FunctionRef{f.name});
  return ctx.b.add("remat", ctx.operands, attrs);
}

OpDef remat_op() {
  OpDef op = custom_rule(
      "remat",
      "The callee. Reverse mode keeps its operands and what the policy names, and computes the rest again on the way "
      "back, after fences, so that no pass merges it with what ran forward.",
      {optional("policy",
                "what is kept: \"nothing\", \"dots\" (results of matrix products and convolutions), \"names\" "
                "(values of checkpoint_name)",
                std::string("nothing")),
       optional("names", "of policy \"names\": the names, separated by commas", std::string())},
      {{"C3", "policy is one of those"}, {"C4", "names are given for policy \"names\" alone"}});
  op.infer = infer_remat;
  op.vjp = remat_vjp;
  op.vjp_forward = remat_vjp_forward;
  op.jvp = remat_jvp;
  op.batch = remat_batch;
  const char* functions = R"(
func @f(%x: f32[3,3], %y: f32[3]) {
  %a = dot_general(%x, %x) {lhs_contract=[1], rhs_contract=[0]}
  %s = sin(%a)
  %n = checkpoint_name(%s) {name="sine"}
  %b = dot_general(%n, %y) {lhs_contract=[1], rhs_contract=[0]}
  %t = tanh(%b)
  return %t, %s
}
)";
  auto attrs = [](const char* policy, const char* names) {
    return Attrs{{"callee", FunctionRef{"f"}}, {"policy", std::string(policy)}, {"names", std::string(names)}};
  };
  for (auto [policy, names] : {std::pair{"nothing", ""}, {"dots", ""}, {"names", "other,sine"}})
    op.examples.push_back({{operand(f32({3, 3})), operand(f32({3}))}, attrs(policy, names), functions});
  op.draw = [examples = op.examples](Rng& rng) { return examples[rng() % examples.size()]; };
  Attrs missing = attrs("nothing", "");
  missing.set("callee", FunctionRef{"missing"});
  op.rejects = {{"C1", {f32({3, 3}), f32({3})}, missing, functions},
                {"C2", {f32({3, 3})}, attrs("nothing", ""), functions},
                {"C3", {f32({3, 3}), f32({3})}, attrs("some", ""), functions},
                {"C4", {f32({3, 3}), f32({3})}, attrs("dots", "a"), functions},
                {"C4", {f32({3, 3}), f32({3})}, attrs("names", ""), functions}};
  return op;
}

}  // namespace

std::vector<OpDef> custom_rule_ops() { return {custom_vjp_op(), custom_jvp_op(), remat_op()}; }

}  // namespace nabla::ops
