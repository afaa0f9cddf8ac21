#include "passes/transform/lower_transforms.h"

#include <algorithm>
#include <map>

#include "passes/rewrite.h"
#include "passes/transform/autocast.h"
#include "passes/transform/batch.h"
#include "passes/transform/differentiate.h"
#include "passes/transform/mark_varying.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::FunctionBuilder;
using ir::FunctionPtr;
using ir::Ints;
using ir::MaybeVal;
using ir::Node;
using ir::Type;
using ir::Val;
using ir::ValueId;

using Vals = std::vector<Val>;

// Each derivative of a derivative makes a program three to four times as large: ten take seconds, twenty years.
constexpr int kMaxDerivatives = 10;

Status check_nesting(const ir::Module& module) {
  constexpr std::string_view kMultiply[] = {"grad", "value_and_grad", "jvp", "vjp_forward"};
  std::map<std::string_view, int> depth;
  for (const FunctionPtr& f : NABLA_TRY(bottom_up(module))) {
    for (const Node& node : f->nodes) {
      int own = std::count(std::begin(kMultiply), std::end(kMultiply), node.op->name) > 0;
      for (const std::string& callee : ir::functions_of(node.attrs))
        depth[f->name] = std::max(depth[f->name], depth[callee] + own);
      if (depth[f->name] <= kMaxDerivatives) continue;
      Diagnostic d = error(Code::kOverBudget, "{} in @{}: derivatives are nested {} deep, the limit is {}",
                           node.op->name, f->name, depth[f->name], kMaxDerivatives);
      d.location = node.location;
      d.help = "each level makes the program several times as large: nest fewer";
      return d;
    }
  }
  return Ok{};
}

class TransformLowering {
 public:
  TransformLowering(const ir::Module& module, const ir::OpTable& ops)
      : in_(module), out_(module), ops_(ops), d_(out_, ops), batcher_(out_, ops), autocaster_(out_, ops) {
    out_.stage = ir::Stage::kFlat;
  }

  Result<ir::Module> run() {
    for (const FunctionPtr& f : NABLA_TRY(bottom_up(in_)))
      if (needs_lowering(*f)) out_.set(lower(*f));
    Diagnostics errors = d_.errors();
    for (const Diagnostic& e : batcher_.errors()) errors.push_back(e);
    for (const Diagnostic& e : errors_) errors.push_back(e);
    if (!errors.empty()) return errors;
    return std::move(out_);
  }

 private:
  using Rewrite = Vals (TransformLowering::*)(FunctionBuilder&, const Node&);
  static const std::map<std::string, Rewrite, std::less<>>& rewrites();

  static bool needs_lowering(const Function& f) {
    return std::any_of(f.values.begin(), f.values.end(), [](const ir::Value& v) { return v.type.is_residual(); }) ||
           std::any_of(f.nodes.begin(), f.nodes.end(),
                       [](const Node& n) { return n.op->lower == ir::Lowering::kTransform; });
  }

  FunctionPtr lower(const Function& f);
  // A type becomes one type or, for a residual, those of the values it stands for.
  std::vector<Type> expand(const Type& type);
  // Per parameter of the callee as traced: where its values begin among the parameters as lowered.
  std::vector<size_t> param_offsets(const Function& traced);

  const Function& traced_callee(const Node& node) const { return *in_.find(node.attrs.get_function("callee")); }
  const Function& callee(const Node& node) const { return *out_.find(node.attrs.get_function("callee")); }
  static Vals call(FunctionBuilder& b, const std::string& function, Vals operands) {
    return b.add("call", std::move(operands), {{"callee", ir::FunctionRef{function}}});
  }

  // Each takes the node's operands as lowered from operands_ and returns its results as lowered.
  Vals gradients(FunctionBuilder& b, const Node& node, Derivative kind);
  Vals lower_grad(FunctionBuilder& b, const Node& node) { return gradients(b, node, Derivative::kGrad); }
  Vals lower_value_and_grad(FunctionBuilder& b, const Node& node) {
    return gradients(b, node, Derivative::kValueAndGrad);
  }
  Vals lower_jvp(FunctionBuilder& b, const Node& node);
  Vals lower_vjp_forward(FunctionBuilder& b, const Node& node);
  Vals lower_vjp_backward(FunctionBuilder& b, const Node& node);
  Vals lower_vmap(FunctionBuilder& b, const Node& node);
  Vals lower_autocast(FunctionBuilder& b, const Node& node) {
    return call(b, autocaster_.cast(callee(node).name, node.attrs.get_dtype("dtype")), operands_);
  }

  const ir::Module& in_;
  ir::Module out_;
  const ir::OpTable& ops_;
  Differentiator d_;
  Batcher batcher_;
  Autocaster autocaster_;
  Diagnostics errors_;
  Vals operands_;
};

const std::map<std::string, TransformLowering::Rewrite, std::less<>>& TransformLowering::rewrites() {
  static const std::map<std::string, Rewrite, std::less<>> table = {
      {"grad", &TransformLowering::lower_grad},
      {"value_and_grad", &TransformLowering::lower_value_and_grad},
      {"jvp", &TransformLowering::lower_jvp},
      {"vjp_forward", &TransformLowering::lower_vjp_forward},
      {"vjp_backward", &TransformLowering::lower_vjp_backward},
      {"vmap", &TransformLowering::lower_vmap},
      {"autocast", &TransformLowering::lower_autocast},
  };
  return table;
}

std::vector<Type> TransformLowering::expand(const Type& type) {
  if (!type.is_residual()) return {type};
  const Function& f = *out_.find(type.residual_of);
  size_t results = f.results.size();
  std::string forward = d_.derive(type.residual_of, Derivative::kVjpForward, Differentiator::all_active(f));
  const Function& made = *out_.find(forward);
  std::vector<Type> all = made.types(made.results);
  return {all.begin() + static_cast<std::ptrdiff_t>(results), all.end()};
}

std::vector<size_t> TransformLowering::param_offsets(const Function& traced) {
  std::vector<size_t> out;
  size_t at = 0;
  for (ValueId id : traced.params) {
    out.push_back(at);
    at += expand(traced.type(id)).size();
  }
  return out;
}

FunctionPtr TransformLowering::lower(const Function& f) {
  FunctionBuilder b(f.name, ops_, &out_);
  std::vector<Vals> values(f.values.size());
  for (ValueId id : f.params) {
    std::vector<Type> types = expand(f.type(id));
    const std::string& name = f.values[id].name;
    for (size_t i = 0; i < types.size(); ++i)
      values[id].push_back(b.param(f.type(id).is_residual() ? fmt::format("{}.{}", name, i) : name, types[i]));
    if (!f.type(id).is_residual()) b.lay_out(values[id][0], f.values[id].sharding);
  }
  for (const Node& node : f.nodes) {
    operands_.clear();
    for (ValueId id : node.operands) operands_.insert(operands_.end(), values[id].begin(), values[id].end());
    b.set_location(node.location);
    auto rewrite = rewrites().find(node.op->name);
    Vals flat = rewrite == rewrites().end() ? b.clone(node, operands_) : (this->*rewrite->second)(b, node);
    auto next = flat.begin();
    for (ValueId id : node.results) {
      auto count = static_cast<std::ptrdiff_t>(expand(f.type(id)).size());
      NABLA_CHECK(flat.end() - next >= count, "{}: {} values for its results", node.op->name, flat.size());
      values[id].assign(next, next + count);
      next += count;
      if (!f.type(id).is_residual() && !f.values[id].name.empty() && b.function().values[values[id][0].id].name.empty())
        b.name_value(values[id][0], f.values[id].name);
      if (!f.type(id).is_residual() && f.values[id].sharding) b.lay_out(values[id][0], f.values[id].sharding);
    }
  }
  Vals results;
  for (ValueId id : f.results) results.insert(results.end(), values[id].begin(), values[id].end());
  auto out = std::make_shared<Function>(b.finish(results));
  out->location = f.location;
  return out;
}

Vals TransformLowering::gradients(FunctionBuilder& b, const Node& node, Derivative kind) {
  const Function& traced = traced_callee(node);
  std::vector<size_t> offsets = param_offsets(traced);
  size_t primal = kind == Derivative::kValueAndGrad ? callee(node).results.size() : 0;
  std::vector<bool> active(callee(node).params.size(), false);
  for (int64_t i : node.attrs.get_ints("wrt")) active[offsets[i]] = true;
  Vals made = call(b, d_.derive(traced.name, kind, active), operands_);
  // The derived function has the gradients in the order of its parameters.
  Vals out(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(primal));
  for (int64_t i : node.attrs.get_ints("wrt")) {
    auto before = std::count(active.begin(), active.begin() + static_cast<std::ptrdiff_t>(offsets[i]), true);
    out.push_back(made[primal + static_cast<size_t>(before)]);
  }
  return out;
}

Vals TransformLowering::lower_jvp(FunctionBuilder& b, const Node& node) {
  const Function& f = callee(node);
  std::vector<size_t> offsets = param_offsets(traced_callee(node));
  size_t n = f.params.size();
  Ints wrt = node.attrs.get_ints("wrt");
  if (wrt.empty()) wrt = ir::iota_ints(static_cast<int>(offsets.size()));
  std::vector<MaybeVal> tangents(n);
  for (size_t i = 0; i < wrt.size(); ++i) tangents[offsets[wrt[i]]] = operands_[n + i];
  std::vector<bool> active = Differentiator::all_active(f);
  Vals operands(operands_.begin(), operands_.begin() + static_cast<std::ptrdiff_t>(n));
  for (size_t i = 0; i < n; ++i) {
    active[i] = active[i] && tangents[i];
    if (active[i]) operands.push_back(*tangents[i]);
  }
  return call(b, d_.derive(f.name, Derivative::kJvp, active), operands);
}

Vals TransformLowering::lower_vjp_forward(FunctionBuilder& b, const Node& node) {
  const Function& f = callee(node);
  return call(b, d_.derive(f.name, Derivative::kVjpForward, Differentiator::all_active(f)), operands_);
}

Vals TransformLowering::lower_vjp_backward(FunctionBuilder& b, const Node& node) {
  const Function& f = callee(node);
  std::vector<bool> active = Differentiator::all_active(f);
  std::vector<Type> types = f.types(f.params);
  Vals made = call(b, d_.derive(f.name, Derivative::kVjpBackward, active), operands_), out;
  size_t next = 0;
  for (size_t i = 0; i < active.size(); ++i)
    out.push_back(active[i] ? made[next++] : b.fill(types[i].dtype, types[i].shape, 0));
  return out;
}

// Dimension `from` of v becomes dimension `to`; the others keep their order.
Val moved(Val v, int64_t from, int64_t to) {
  Ints order = ir::iota_ints(v.rank());
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return transpose(v, order);
}

Vals TransformLowering::lower_vmap(FunctionBuilder& b, const Node& node) {
  const Function &traced = traced_callee(node), &f = callee(node);
  std::vector<size_t> offsets = param_offsets(traced);
  const Ints &in_axes = node.attrs.get_ints("in_axes"), &out_axes = node.attrs.get_ints("out_axes");
  const ir::Shape& given = node.attrs.get_shape("size");
  Batch batch{given.empty() ? ir::Dim() : given[0], node.attrs.get_string("spmd_axis_name")};
  std::vector<bool> params(f.params.size(), false), forced;
  Vals operands = operands_;
  for (size_t i = 0; i < in_axes.size(); ++i) {
    if (in_axes[i] < 0) continue;
    Val& operand = operands[offsets[i]];
    batch.size = operand.shape()[in_axes[i]];
    operand = moved(operand, in_axes[i], 0);
    params[offsets[i]] = true;
  }
  for (int64_t axis : out_axes) forced.push_back(axis >= 0);
  ir::BatchedFunction made = batcher_.batch(f.name, params, forced, batch);
  Vals out = call(b, made.name, operands);
  for (size_t r = 0; r < out.size(); ++r) {
    if (out_axes[r] >= 0) {
      out[r] = moved(out[r], 0, out_axes[r]);
    } else if (made.results[r]) {
      Diagnostic d = error(Code::kBadAttribute, "vmap: result {} of @{} depends on the example, but out_axes is -1", r,
                           traced.name);
      d.location = node.location;
      d.help = "give it a dimension in out_axes";
      errors_.push_back(std::move(d));
      out[r] = b.fill(out[r].dtype(), {out[r].shape().begin() + 1, out[r].shape().end()}, 0);
    }
  }
  return out;
}

}  // namespace

Result<ir::Module> lower_transforms(const ir::Module& module, PassContext& context) {
  (void)NABLA_TRY(check_nesting(module));
  return TransformLowering(NABLA_TRY(mark_varying(module, context.ops)), context.ops).run();
}

}  // namespace nabla::passes
