#include "passes/transform/differentiate.h"

#include <algorithm>
#include <memory>

#include "passes/rewrite.h"
#include "passes/transform/residuals.h"
#include "passes/transform/sweep.h"

namespace nabla::passes {

using ir::Function;
using ir::FunctionBuilder;
using ir::MaybeVal;
using ir::Node;
using ir::Val;
using ir::ValueId;

namespace {

std::string_view suffix_of(Derivative kind) {
  switch (kind) {
    case Derivative::kVjpForward:
      return ".vjp_fwd";
    case Derivative::kVjpBackward:
      return ".vjp_bwd";
    case Derivative::kJvp:
      return ".jvp";
    case Derivative::kGrad:
      return ".grad";
    case Derivative::kValueAndGrad:
      return ".value_and_grad";
  }
  return "";
}

// Adds a parameter whose name no other parameter has.
Val fresh_param(FunctionBuilder& b, const std::string& wish, const ir::Type& type) {
  std::string name = wish;
  auto taken = [&] {
    const Function& f = b.function();
    return std::any_of(f.params.begin(), f.params.end(), [&](ValueId id) { return f.values[id].name == name; });
  };
  for (int n = 2; taken(); ++n) name = fmt::format("{}.{}", wish, n);
  return b.param(name, type);
}

std::vector<Val> copy_params(FunctionBuilder& b, const Function& f) {
  std::vector<Val> out;
  for (ValueId id : f.params) out.push_back(b.param(f.values[id].name, f.type(id)));
  return out;
}

// Gradients of the active parameters; zeros where nothing flows back.
std::vector<Val> present(FunctionBuilder& b, const std::vector<MaybeVal>& gradients, const std::vector<Val>& params,
                         const std::vector<bool>& active) {
  std::vector<Val> out;
  for (size_t i = 0; i < params.size(); ++i)
    if (active[i]) out.push_back(gradients[i] ? *gradients[i] : b.zeros_like(params[i]));
  return out;
}

// Splits a joint function into forward and backward pass. Forward values that the backward pass uses are residuals, or are computed again
// from residuals. The residuals are chosen here, unless an earlier split of the same forward pass has chosen them.
class Split {
 public:
  Split(const Joint& joint, const ir::Module& module, const std::vector<ValueId>* residuals = nullptr)
      : joint_(joint), f_(joint.f), live_(f_.nodes.size(), false), given_(f_.values.size(), false) {
    for (const Node& node : f_.nodes) effects_.push_back(ir::has_effect(node, module));
    std::vector<bool> needed(f_.values.size(), false);
    for (ValueId id : f_.results) needed[id] = true;
    mark(joint.forward_nodes, f_.nodes.size(), needed, given_, false);
    ForwardPart forward{f_, joint.forward_nodes, given_, given_};
    for (size_t n = 0; n < joint.forward_nodes; ++n) {
      const Node& node = f_.nodes[n];
      bool all = !effects_[n] && !node.op->traits.fence &&
                 std::all_of(node.operands.begin(), node.operands.end(), [&](ValueId id) { return forward.fixed[id]; });
      for (ValueId id : node.results) forward.fixed[id] = all;
    }
    for (size_t i = 0; i < joint.primal_params; ++i) forward.params[f_.params[i]] = true;
    residuals_ = residuals ? *residuals : choose_residuals(forward, needed);
    for (ValueId id : residuals_) given_[id] = true;
    remade_ = needed;
  }

  Function forward(std::string name, const ir::OpTable& ops, const ir::Module& module) {
    std::vector<bool> needed(f_.values.size(), false);
    for (ValueId id : joint_.primal_results) needed[id] = true;
    for (ValueId id : residuals_) needed[id] = true;
    mark(0, joint_.forward_nodes, needed, std::vector<bool>(f_.values.size(), false), true);
    FunctionBuilder b(std::move(name), ops, &module);
    std::vector<Val> values(f_.values.size());
    for (size_t i = 0; i < joint_.primal_params; ++i)
      values[f_.params[i]] = b.param(f_.values[f_.params[i]].name, f_.type(f_.params[i]));
    copy_live(b, 0, joint_.forward_nodes, values);
    std::vector<Val> results;
    for (ValueId id : joint_.primal_results) results.push_back(values[id]);
    for (ValueId id : residuals_) results.push_back(values[id]);
    return b.finish(results);
  }

  Function backward(std::string name, const ir::OpTable& ops, const ir::Module& module) {
    mark(0, joint_.forward_nodes, remade_, given_, false);
    FunctionBuilder b(std::move(name), ops, &module);
    std::vector<Val> values(f_.values.size());
    for (size_t i = 0; i < residuals_.size(); ++i)
      values[residuals_[i]] = fresh_param(b, fmt::format("r.{}", i), f_.type(residuals_[i]));
    for (size_t i = joint_.primal_params; i < f_.params.size(); ++i)
      values[f_.params[i]] = fresh_param(b, f_.values[f_.params[i]].name, f_.type(f_.params[i]));
    copy_live(b, 0, f_.nodes.size(), values);
    std::vector<Val> results;
    for (ValueId id : f_.results) results.push_back(values[id]);
    return b.finish(results);
  }

  const std::vector<ValueId>& residuals() const { return residuals_; }

 private:
  // Nodes in [first, last) that lead to needed values which are not given or, where asked, have side effects; their
  // operands become needed.
  void mark(size_t first, size_t last, std::vector<bool>& needed, const std::vector<bool>& given, bool side_effects) {
    for (size_t n = last; n-- > first;) {
      const Node& node = f_.nodes[n];
      live_[n] =
          (side_effects && effects_[n]) ||
          std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) { return needed[id] && !given[id]; });
      if (live_[n])
        for (ValueId id : node.operands) needed[id] = true;
    }
  }

  void copy_live(FunctionBuilder& b, size_t first, size_t last, std::vector<Val>& values) const {
    for (size_t n = first; n < last; ++n) {
      const Node& node = f_.nodes[n];
      if (!live_[n]) continue;
      std::vector<Val> operands;
      for (ValueId id : node.operands) operands.push_back(values[id]);
      std::vector<Val> results = b.clone(node, f_, operands);
      for (size_t i = 0; i < results.size(); ++i) values[node.results[i]] = results[i];
    }
  }

  const Joint& joint_;
  const Function& f_;
  std::vector<bool> effects_;  // per node
  std::vector<bool> live_;
  std::vector<ValueId> residuals_;
  std::vector<bool> given_;   // per value: a residual, once they are chosen
  std::vector<bool> remade_;  // what the way back needs
};

}  // namespace

std::vector<bool> Differentiator::all_active(const Function& f) {
  std::vector<bool> out;
  for (ValueId id : f.params) out.push_back(is_float(f.type(id).dtype));
  return out;
}

void Differentiator::refuse(const Function& f, const Node& node, Code code, std::string_view reason) {
  Diagnostic d = error(code, "{} cannot be differentiated: {}", node.op->name, reason);
  d.location = node.location;
  for (ValueId id : node.operands) d.notes.push_back(describe_value(f, id));
  d.notes.push_back(fmt::format("in the derivative of @{}", f.name));
  auto same = [&](const Diagnostic& e) { return e.message == d.message && e.location == d.location; };
  if (std::none_of(errors_.begin(), errors_.end(), same)) errors_.push_back(std::move(d));
}

std::string Differentiator::define(Function f) {
  f.name = fresh_name(module_, f.name);
  std::string name = f.name;
  module_.functions.push_back(std::make_shared<const Function>(std::move(f)));
  return name;
}

ir::FunctionPtr Differentiator::need(std::string_view function) const {
  auto at = std::find_if(module_.functions.begin(), module_.functions.end(),
                         [&](const ir::FunctionPtr& f) { return f->name == function; });
  NABLA_CHECK(at != module_.functions.end(), "derive: no function @{}", function);
  return *at;
}

std::string Differentiator::name_for(const Function& f, Derivative kind, const std::vector<bool>& active) const {
  std::string wish = f.name + std::string(suffix_of(kind));
  if (active != all_active(f)) {
    wish += '.';
    for (bool a : active) wish += a ? '1' : '0';
  }
  return fresh_name(module_, wish);
}

std::string Differentiator::derive(std::string_view function, Derivative kind, std::vector<bool> active) {
  ir::FunctionPtr f = need(function);  // kept: the module's list grows
  std::vector<bool> floating = all_active(*f);
  NABLA_CHECK(active.size() == floating.size(), "derive: {} flags for {} parameters of @{}", active.size(),
              floating.size(), function);
  for (size_t i = 0; i < active.size(); ++i) active[i] = active[i] && floating[i];
  Key key{f->name, kind, active, {}};
  if (auto known = names_.find(key); known != names_.end()) return known->second;
  switch (kind) {
    case Derivative::kVjpForward:
    case Derivative::kVjpBackward:
      make_vjp(*f, active);
      break;
    case Derivative::kJvp:
      names_[key] = define(make_jvp(*f, active, name_for(*f, kind, active)));
      break;
    case Derivative::kGrad:
    case Derivative::kValueAndGrad:
      names_[key] = define(make_grad(*f, active, kind == Derivative::kValueAndGrad, name_for(*f, kind, active)));
  }
  return names_.at(key);
}

std::string Differentiator::derive_backward(std::string_view function, std::vector<bool> active,
                                            const std::vector<bool>& given) {
  std::string all = derive(function, Derivative::kVjpBackward, active);
  ir::FunctionPtr f = need(function);
  std::vector<bool> floating = all_active(*f);
  for (size_t i = 0; i < active.size(); ++i) active[i] = active[i] && floating[i];
  bool missing = false;
  for (size_t i = 0; i < given.size(); ++i) missing |= !given[i] && is_float(f->type(f->results[i]).dtype);
  if (!missing) return all;
  std::string& name = names_[{f->name, Derivative::kVjpBackward, active, given}];
  if (name.empty()) name = make_backward(*f, active, given);
  return name;
}

Function Differentiator::make_jvp(const Function& f, const std::vector<bool>& active, std::string name) {
  FunctionBuilder b(std::move(name), ops_, &module_);
  b.set_location(f.location);
  std::vector<Val> params = copy_params(b, f);
  std::vector<MaybeVal> tangents(params.size());
  for (size_t i = 0; i < params.size(); ++i)
    if (active[i]) tangents[i] = fresh_param(b, f.values[f.params[i]].name + ".t", f.type(f.params[i]));
  Pushed pushed = push_forward(*this, b, f, params, tangents);
  std::vector<Val> results = pushed.values;
  for (size_t i = 0; i < pushed.values.size(); ++i)
    results.push_back(pushed.tangents[i] ? *pushed.tangents[i] : b.zeros_like(pushed.values[i]));
  auto out = std::make_shared<Function>(b.finish(results));
  out->location = f.location;
  return *without_dead_nodes(out, module_, ops_);
}

Function Differentiator::make_grad(const Function& f, const std::vector<bool>& active, bool with_values,
                                   std::string name) {
  FunctionBuilder b(std::move(name), ops_, &module_);
  b.set_location(f.location);
  std::vector<Val> params = copy_params(b, f);
  std::vector<bool> wanted(f.results.size(), false);
  wanted[0] = true;
  ReverseSweep sweep(*this, b, f, params, active, wanted);
  std::vector<Val> values = sweep.results();
  std::vector<MaybeVal> cotangents(values.size());
  b.set_location(f.location);
  cotangents[0] = b.fill(values[0].dtype(), values[0].shape(), 1);
  std::vector<Val> gradients = present(b, sweep.pull_back(cotangents), params, active);
  std::vector<Val> results = with_values ? values : std::vector<Val>{};
  results.insert(results.end(), gradients.begin(), gradients.end());
  auto out = std::make_shared<Function>(b.finish(results));
  out->location = f.location;
  return *without_dead_nodes(out, module_, ops_);
}

Joint Differentiator::both_ways(const Function& f, const std::vector<bool>& active, const std::vector<bool>& given) {
  FunctionBuilder b(f.name, ops_, &module_);
  b.set_location(f.location);
  std::vector<Val> params = copy_params(b, f);
  std::vector<MaybeVal> cotangents;
  std::vector<bool> wanted;
  for (size_t i = 0; i < f.results.size(); ++i) {
    const ir::Type& type = f.type(f.results[i]);
    Val ct = fresh_param(b, fmt::format("ct.{}", i), type);
    wanted.push_back(is_float(type.dtype));
    cotangents.push_back(wanted.back() && given[i] ? MaybeVal(ct) : std::nullopt);
  }
  ReverseSweep sweep(*this, b, f, params, active, wanted);
  Joint joint;
  joint.primal_params = params.size();
  joint.forward_nodes = b.function().nodes.size();
  for (Val v : sweep.results()) joint.primal_results.push_back(v.id);
  b.set_location(f.location);
  std::vector<Val> gradients = present(b, sweep.pull_back(cotangents), params, active);
  joint.f = b.finish(gradients);
  return joint;
}

void Differentiator::make_vjp(const Function& f, const std::vector<bool>& active) {
  std::string forward = name_for(f, Derivative::kVjpForward, active);
  std::string backward = name_for(f, Derivative::kVjpBackward, active);
  Joint joint = both_ways(f, active, std::vector<bool>(f.results.size(), true));
  Split split(joint, module_);
  Function made_forward = split.forward(forward, ops_, module_);
  Function made_backward = split.backward(backward, ops_, module_);
  made_forward.location = made_backward.location = f.location;
  residuals_[{f.name, Derivative::kVjpForward, active, {}}] = split.residuals();
  names_[{f.name, Derivative::kVjpForward, active, {}}] = define(std::move(made_forward));
  names_[{f.name, Derivative::kVjpBackward, active, {}}] = define(std::move(made_backward));
}

std::string Differentiator::make_backward(const Function& f, const std::vector<bool>& active, const std::vector<bool>& given) {
  Joint joint = both_ways(f, active, given);
  // Both joint functions begin with the same forward nodes. Their forward values therefore have the same ids.
  Split split(joint, module_, &residuals_.at({f.name, Derivative::kVjpForward, active, {}}));
  std::string name = name_for(f, Derivative::kVjpBackward, active) + ".ct";
  for (bool g : given) name += g ? '1' : '0';
  Function made = split.backward(name, ops_, module_);
  made.location = f.location;
  return define(std::move(made));
}

std::string DerivativeFunctions::derive(std::string_view function, ir::Transform transform, std::vector<bool> active) {
  Derivative kind = transform == ir::Transform::kVjpForward    ? Derivative::kVjpForward
                    : transform == ir::Transform::kVjpBackward ? Derivative::kVjpBackward
                                                               : Derivative::kJvp;
  return d_.derive(function, kind, std::move(active));
}

std::vector<bool> DerivativeFunctions::depends(std::string_view function, const std::vector<bool>& params) {
  const Function& f = get(function);
  Activity activity(f, params, std::vector<bool>(f.results.size(), true));
  std::vector<bool> out;
  for (ValueId id : f.results) out.push_back(activity.depends[id]);
  return out;
}

ir::BatchedFunction DerivativeFunctions::batch(std::string_view function, std::vector<bool>, std::vector<bool>) {
  NABLA_CHECK(false, "a derivative rule asks for a batch of @{}", function);
}

}  // namespace nabla::passes
