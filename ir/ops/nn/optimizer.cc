// Parameter updates as composites: sgd_update, sgd_momentum_update, adamw_update.
#include <cmath>

#include "ir/ops/access.h"
#include "ir/ops/all_ops.h"

namespace nabla::ops {
namespace {

using kernel_ir::Expr;
using kernel_ir::Fragment;

/// The first `tensors` operands have one floating type (C1); then `step` where there is one (C3), then lr (C2).
InferResult infer_update(const InferContext& ctx, int tensors, bool step) {
  NABLA_TRY(require_float(ctx, 0, "C1"));
  for (int i = 1; i < tensors; ++i) NABLA_TRY(ctx.require_same_type(0, i, "C1"));
  int lr = static_cast<int>(ctx.operands.size()) - 1;
  NABLA_TRY(require_float(ctx, lr, "C2"));
  NABLA_TRY(require_rank(ctx, lr, 0, "C2"));
  if (step) {
    NABLA_TRY(require_integer(ctx, tensors, "C3"));
    NABLA_TRY(require_rank(ctx, tensors, 0, "C3"));
  }
  return Types(ctx.operands.size() == 3 ? 1 : tensors - 1, ctx.operands[0]);
}

ir::Refusal not_trained() {
  return ir::not_differentiable("an optimizer update ends a training step; differentiate the loss instead");
}

/// What the three records share; rules that depend on the algorithm are arguments.
OpDef make_update(const char* name, const char* doc, int tensors, bool step, int64_t flops,
                  ir::Rule<Literals(const EvalContext&)> reference,
                  ir::Rule<std::vector<Val>(DecomposeContext&)> decompose, ir::Rule<Fragment(const TypedOp&)> access) {
  return {
      .name = name,
      .version = 1,
      .category = "composite",
      .doc = std::string(doc) + " Computed in f32 for 8- and 16-bit floats and rounded once.",
      .operands = {{"param", "parameters"}, {"grad", "their gradient"}},
      .attrs = {optional("weight_decay", "times the parameter", 0.0)},
      .results = {{"new_param", "updated parameters"}},
      .constraints = {{"C1", "parameters, gradient and moments have one floating type"},
                      {"C2", "lr is a floating scalar"}},
      .traits = {.composite = true},
      .stages = ir::kTensorStages,
      .infer = [tensors, step](const InferContext& ctx) { return infer_update(ctx, tensors, step); },
      .reference = std::move(reference),
      .fold = fold_by_reference(),
      .decompose = std::move(decompose),
      .vjp = not_trained(),
      .jvp = not_trained(),
      .batch = ir::by_decomposition(),
      .factors = Factors::pointwise,
      .access = std::move(access),
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = [flops](const TypedOp& op) { return pointwise_cost(op, flops); },
      .dtypes = DTypes::kFloats,
      .examples = {},
      .draw = nullptr,
      .rejects = {},
  };
}

/// Attributes, examples and rejects of an update with these tensors. `values` are drawn per tensor.
void add_examples(OpDef& op, std::vector<ValueSpec> values, bool step, std::vector<Attrs> attrs) {
  auto example = [values, step](Shape shape, Attrs a) {
    Example e{{}, std::move(a)};
    for (const ValueSpec& v : values) e.operands.push_back(operand(f32(shape), v));
    if (step) e.operands.push_back(operand(i32(), between(1, 50)));
    e.operands.push_back(operand(f32(), between(0.01, 0.5)));
    return e;
  };
  for (const Attrs& a : attrs) op.examples.push_back(example({2, 3}, a));
  op.examples.push_back(example({}, attrs[0]));
  op.draw = [example, attrs](Rng& rng) {
    Shape shape = random_shape(rng, static_cast<int>(random_int(rng, 0, 3)));
    return example(shape, attrs[random_int(rng, 0, static_cast<int64_t>(attrs.size()) - 1)]);
  };
  auto reject = [&](const char* id, size_t which, Type type) {
    Reject r{id, {}, {}};
    for (const Operand& o : op.examples[0].operands) r.operands.push_back(o.type);
    r.operands[which] = std::move(type);
    op.rejects.push_back(std::move(r));
  };
  size_t tensors = values.size(), last = tensors + (step ? 1 : 0);
  reject("C1", 0, i32({2, 3}));
  for (size_t i = 1; i < tensors; ++i) reject("C1", i, f32({3, 2}));
  reject("C1", 1, Type(DType::kF64, {2, 3}));
  reject("C2", last, i32());
  reject("C2", last, f32({1}));
  if (!step) return;
  op.constraints.push_back({"C3", "step is an integer scalar"});
  reject("C3", tensors, f32());
  reject("C3", tensors, i32({1}));
}

/// Access of an update: the axes, and operands in the parameter's accumulation type.
struct UpdateAccess {
  Fragment f;
  const TypedOp& op;
  std::vector<int> own;
  DType dtype, wide;

  explicit UpdateAccess(const TypedOp& t)
      : op(t), own(f.add_axes("i", t.operands[0].shape)), dtype(t.operands[0].dtype), wide(accumulation_type(dtype)) {}
  Expr tensor(int k) const { return load_wide(op, k, kernel_ir::axes_as_indices(own)); }
  /// A scalar operand as a number of the wide type.
  Expr scalar(int k) const { return kernel_ir::convert(wide, load_operand(op, k, {})); }
  Expr number(double v) const { return kernel_ir::constant(wide, v); }
  Expr attr(const char* name) const { return number(op.attrs.get_float(name)); }
  /// A rank-0 definition: computed once, not per element.
  Expr once(const char* name, Expr value) { return f.at(define(f, name, {}, std::move(value))); }
  int each(const char* name, Expr value) { return define(f, name, own, std::move(value)); }
  void result(int d, const char* name) { f.results.push_back(round_definition(f, d, dtype, name)); }
};

/// The same for decompositions.
struct UpdateOps {
  DecomposeContext& ctx;
  DType dtype;
  Shape shape;

  explicit UpdateOps(DecomposeContext& c) : ctx(c), dtype(c.operand(0).dtype()), shape(c.operand(0).shape()) {}
  Val tensor(int k) const { return wide(ctx.operand(k)); }
  Val scalar(int k) const { return convert(ctx.operand(k), accumulation_type(dtype)); }
  Val spread(Val scalar) const { return broadcast_in_dim(scalar, shape, {}); }
  double attr(const char* name) const { return ctx.attrs().get_float(name); }
  Val result(Val v) const { return convert(v, dtype); }
};

// ---- sgd

Literals reference_sgd(const EvalContext& ctx) {
  const Literal &param = ctx.operands[0], &grad = ctx.operands[1];
  Literal out = zeros(ctx.op.results[0]);
  double decay = ctx.attrs().get_float("weight_decay"), lr = ctx.operands[2].get(0);
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, param.get(i) - lr * (grad.get(i) + decay * param.get(i)));
  return {out};
}

std::vector<Val> decompose_sgd(DecomposeContext& ctx) {
  UpdateOps u(ctx);
  Val p = u.tensor(0), d = u.tensor(1) + p * u.attr("weight_decay");
  return {u.result(p - u.spread(u.scalar(2)) * d)};
}

Fragment access_sgd(const TypedOp& op) {
  UpdateAccess u(op);
  Expr p = u.tensor(0), lr = u.once("lr", u.scalar(2));
  u.result(u.each("new_param", p - lr * (u.tensor(1) + u.attr("weight_decay") * p)), "out");
  return u.f;
}

OpDef sgd() {
  OpDef op = make_update("sgd_update", "One step of gradient descent: p - lr * (g + weight_decay * p).", 2, false, 4,
                         reference_sgd, decompose_sgd, access_sgd);
  op.operands.push_back({"lr", "learning rate, a scalar"});
  add_examples(op, {{}, {}}, false, {{{"weight_decay", 0.0}}, {{"weight_decay", 0.1}}});
  return op;
}

// ---- sgd with momentum

Literals reference_momentum(const EvalContext& ctx) {
  const Literal &param = ctx.operands[0], &grad = ctx.operands[1], &buffer = ctx.operands[2];
  Literal new_param = zeros(ctx.op.results[0]), new_buffer = zeros(ctx.op.results[1]);
  const Attrs& attrs = ctx.attrs();
  double decay = attrs.get_float("weight_decay"), momentum = attrs.get_float("momentum"), lr = ctx.operands[3].get(0);
  for (int64_t i = 0; i < param.size(); ++i) {
    double d = grad.get(i) + decay * param.get(i), b = momentum * buffer.get(i) + d;
    new_buffer.set(i, b);
    new_param.set(i, param.get(i) - lr * (attrs.get_bool("nesterov") ? d + momentum * b : b));
  }
  return {new_param, new_buffer};
}

std::vector<Val> decompose_momentum(DecomposeContext& ctx) {
  UpdateOps u(ctx);
  Val p = u.tensor(0), d = u.tensor(1) + p * u.attr("weight_decay");
  Val b = u.tensor(2) * u.attr("momentum") + d;
  Val step = ctx.attrs().get_bool("nesterov") ? d + b * u.attr("momentum") : b;
  return {u.result(p - u.spread(u.scalar(3)) * step), u.result(b)};
}

Fragment access_momentum(const TypedOp& op) {
  UpdateAccess u(op);
  Expr p = u.tensor(0), lr = u.once("lr", u.scalar(3)), d = u.tensor(1) + u.attr("weight_decay") * p;
  int b = u.each("new_buffer", u.attr("momentum") * u.tensor(2) + d);
  Expr step = op.attrs.get_bool("nesterov") ? d + u.attr("momentum") * u.f.at(b) : u.f.at(b);
  u.result(u.each("new_param", p - lr * step), "param_out");
  u.result(b, "buffer_out");
  return u.f;
}

OpDef momentum() {
  OpDef op = make_update("sgd_momentum_update",
                         "One step of gradient descent with momentum, without dampening: d = g + weight_decay * p; "
                         "b' = momentum * b + d; p' = p - lr * b', or with nesterov p - lr * (d + momentum * b'). The "
                         "buffer starts at zero. As in PyTorch.",
                         3, false, 6, reference_momentum, decompose_momentum, access_momentum);
  op.operands.push_back({"buffer", "momentum"});
  op.operands.push_back({"lr", "learning rate, a scalar"});
  op.attrs.push_back(optional("momentum", "share of the buffer that is kept", 0.9));
  op.attrs.push_back(optional("nesterov", "look ahead by one step", false));
  op.results.push_back({"new_buffer", "updated momentum"});
  add_examples(op, {{}, {}, {}}, false,
               {{{"momentum", 0.9}}, {{"momentum", 0.5}, {"nesterov", true}, {"weight_decay", 0.1}}});
  return op;
}

// ---- adamw

Literals reference_adamw(const EvalContext& ctx) {
  const Literal &param = ctx.operands[0], &grad = ctx.operands[1];
  Literal new_param = zeros(ctx.op.results[0]), new_m = zeros(ctx.op.results[1]), new_v = zeros(ctx.op.results[2]);
  const Attrs& attrs = ctx.attrs();
  double beta1 = attrs.get_float("beta1"), beta2 = attrs.get_float("beta2"), eps = attrs.get_float("eps");
  double step = static_cast<double>(ctx.operands[4].get_i(0)), lr = ctx.operands[5].get(0);
  for (int64_t i = 0; i < param.size(); ++i) {
    double g = grad.get(i);
    double m = beta1 * ctx.operands[2].get(i) + (1 - beta1) * g;
    double v = beta2 * ctx.operands[3].get(i) + (1 - beta2) * g * g;
    double m_hat = m / (1 - std::pow(beta1, step)), v_hat = v / (1 - std::pow(beta2, step));
    double decayed = param.get(i) * (1 - lr * attrs.get_float("weight_decay"));
    new_param.set(i, decayed - lr * m_hat / (std::sqrt(v_hat) + eps));
    new_m.set(i, m);
    new_v.set(i, v);
  }
  return {new_param, new_m, new_v};
}

// 1 - beta^t is -expm1(t * log(beta)): the difference itself would lose most digits in f32 while t is small.
std::vector<Val> decompose_adamw(DecomposeContext& ctx) {
  UpdateOps u(ctx);
  Val p = u.tensor(0), g = u.tensor(1), t = u.scalar(4), lr = u.scalar(5);
  double beta1 = u.attr("beta1"), beta2 = u.attr("beta2");
  Val m = u.tensor(2) * beta1 + g * (1 - beta1), v = u.tensor(3) * beta2 + g * g * (1 - beta2);
  auto correction = [&](double beta) { return -apply("expm1", t * std::log(beta)); };
  Val rate = lr / correction(beta1), scale = apply("rsqrt", correction(beta2));
  Val decayed = p * u.spread(1 - lr * u.attr("weight_decay"));
  Val moved = u.spread(rate) * m / (apply("sqrt", v) * u.spread(scale) + u.attr("eps"));
  return {u.result(decayed - moved), u.result(m), u.result(v)};
}

Fragment access_adamw(const TypedOp& op) {
  UpdateAccess u(op);
  double beta1 = op.attrs.get_float("beta1"), beta2 = op.attrs.get_float("beta2");
  Expr p = u.tensor(0), g = u.tensor(1), t = u.scalar(4), lr = u.scalar(5);
  auto correction = [&](double beta) { return unary("neg", unary("expm1", t * u.number(std::log(beta)))); };
  Expr rate = u.once("rate", lr / correction(beta1)), scale = u.once("scale", unary("rsqrt", correction(beta2)));
  Expr keep = u.once("keep", u.number(1) - lr * u.attr("weight_decay"));
  int m = u.each("new_m", u.number(beta1) * u.tensor(2) + u.number(1 - beta1) * g);
  int v = u.each("new_v", u.number(beta2) * u.tensor(3) + u.number(1 - beta2) * g * g);
  Expr moved = rate * u.f.at(m) / (unary("sqrt", u.f.at(v)) * scale + u.attr("eps"));
  u.result(u.each("new_param", p * keep - moved), "param_out");
  u.result(m, "m_out");
  u.result(v, "v_out");
  return u.f;
}

OpDef adamw() {
  OpDef op =
      make_update("adamw_update",
                  "One step of Adam with decoupled weight decay: m' = beta1 m + (1 - beta1) g; v' = beta2 v + "
                  "(1 - beta2) g^2; p' = p (1 - lr weight_decay) - lr (m' / (1 - beta1^step)) / "
                  "(sqrt(v' / (1 - beta2^step)) + eps). m and v start at zero, step counts from 1. Loshchilov and "
                  "Hutter, \"Decoupled weight decay regularization\", 2017; the order of operations is PyTorch's.",
                  4, true, 16, reference_adamw, decompose_adamw, access_adamw);
  op.operands.insert(op.operands.end(), {{"m", "first moment"},
                                         {"v", "second moment, not negative"},
                                         {"step", "which step this is, from 1; an integer scalar"},
                                         {"lr", "learning rate, a scalar"}});
  op.attrs.push_back(optional("beta1", "share of m that is kept, in [0, 1)", 0.9));
  op.attrs.push_back(optional("beta2", "share of v that is kept, in [0, 1)", 0.999));
  op.attrs.push_back(optional("eps", "added to the denominator", 1e-8));
  op.results.insert(op.results.end(), {{"new_m", "updated first moment"}, {"new_v", "updated second moment"}});
  add_examples(op, {{}, {}, {}, between(0.1, 2)}, true,
               {{{"weight_decay", 0.01}}, {{"beta1", 0.5}, {"beta2", 0.9}, {"eps", 1e-3}}});
  auto infer = op.infer;
  op.constraints.push_back({"C4", "beta1 and beta2 are in [0, 1)"});
  op.infer = [infer](const InferContext& ctx) -> InferResult {
    for (const char* name : {"beta1", "beta2"}) {
      double beta = ctx.attrs.get_float(name);
      if (!(beta >= 0 && beta < 1)) return ctx.fail(Code::kBadAttribute, "C4", "{} is {}, not in [0, 1)", name, beta);
    }
    return infer(ctx);
  };
  Reject beta{"C4", op.rejects[0].operands, {{"beta2", 1.0}}};
  beta.operands[0] = beta.operands[1];
  op.rejects.push_back(beta);
  return op;
}

}  // namespace

std::vector<OpDef> optimizer_ops() { return {sgd(), momentum(), adamw()}; }

}  // namespace nabla::ops
