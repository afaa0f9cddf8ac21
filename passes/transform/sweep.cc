#include "passes/transform/sweep.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace nabla::passes {

using ir::Function;
using ir::FunctionBuilder;
using ir::MaybeVal;
using ir::Node;
using ir::TypedOp;
using ir::Val;
using ir::ValueId;

namespace {

bool any_of(const std::vector<bool>& flags) { return std::find(flags.begin(), flags.end(), true) != flags.end(); }
bool any_present(const std::vector<MaybeVal>& values) {
  return std::any_of(values.begin(), values.end(), [](const MaybeVal& v) { return v.has_value(); });
}

std::vector<bool> presence(const std::vector<MaybeVal>& values) {
  std::vector<bool> out;
  for (const MaybeVal& v : values) out.push_back(v.has_value());
  return out;
}

// A derivative that does not have its value's type is a mistake in a rule.
void check_derivative(const Node& node, const MaybeVal& derivative, const ir::Type& type, const char* what) {
  if (!derivative) return;
  NABLA_CHECK(derivative->dtype() == type.dtype && derivative->rank() == type.rank(), "{} of {}: {} for a value of {}",
              what, node.op->name, derivative->type().str(), type.str());
}

// Whether the node can be differentiated by its decomposition; notes why not.
bool can_decompose(Differentiator& d, const Function& f, const Node& node) {
  if (node.op->decompose.exists()) return true;
  d.refuse(f, node, Code::kNoRule,
           fmt::format("its derivative is by decomposition, but it has none: {}", node.op->decompose.reason()));
  return false;
}

}  // namespace

Activity::Activity(const Function& f, const std::vector<bool>& active_params, const std::vector<bool>& wanted_results)
    : depends(f.values.size(), false), active(f.values.size(), false) {
  auto floating = [&](ValueId id) { return is_float(f.type(id).dtype) && !f.type(id).is_residual(); };
  for (size_t i = 0; i < f.params.size(); ++i) depends[f.params[i]] = active_params[i] && floating(f.params[i]);
  for (const Node& node : f.nodes) {
    bool any = !node.op->traits.constant &&
               std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId id) { return depends[id]; });
    for (ValueId id : node.results) depends[id] = any && floating(id);
  }
  std::vector<bool> leads(f.values.size(), false);
  for (size_t i = 0; i < f.results.size(); ++i)
    if (wanted_results[i]) leads[f.results[i]] = true;
  for (auto node = f.nodes.rbegin(); node != f.nodes.rend(); ++node) {
    bool any =
        std::any_of(node->results.begin(), node->results.end(), [&](ValueId id) { return leads[id] && floating(id); });
    if (any && !node->op->traits.constant)
      for (ValueId id : node->operands) leads[id] = true;
  }
  for (size_t i = 0; i < active.size(); ++i) active[i] = depends[i] && leads[i];
}

bool Activity::any(const std::vector<ValueId>& ids) const {
  return std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return active[id]; });
}

// ---- Forward mode

namespace {

std::vector<MaybeVal> zeros(FunctionBuilder& b, const std::vector<Val>& values) {
  std::vector<MaybeVal> out;
  for (Val v : values) out.push_back(b.zeros_like(v));
  return out;
}

// Tangents of the node's results; nothing when its op refuses. A rule may replace the results.
std::optional<std::vector<MaybeVal>> push_node(Differentiator& d, FunctionBuilder& b, const Function& f,
                                               const Node& node, const std::vector<Val>& operands,
                                               std::vector<Val>& results, const std::vector<MaybeVal>& tangents) {
  TypedOp op = typed(f, node);
  b.set_location(node.location);
  if (node.op->jvp.exists()) {
    DerivativeFunctions functions(d, f, node);
    ir::JvpContext ctx{b, op, operands, results, tangents, &functions};
    std::vector<MaybeVal> out = node.op->jvp(ctx);
    results = ctx.results;
    return out;
  }
  if (node.op->jvp.by_decomposition()) {
    if (!can_decompose(d, f, node)) return std::vector<MaybeVal>(results.size());
    return push_forward(d, b, decomposition(op, node.location, d.ops(), &d.module()), operands, tangents).tangents;
  }
  return std::nullopt;
}

// A refusal counts only where the tangent reaches a result: an op such as stop_gradient may end its path. Until then
// zeros stand for it, and the values that they reach are marked with the node that refused.
class Refusals {
 public:
  explicit Refusals(const Function& f) : f_(f), by_(f.values.size(), nullptr) {}
  void mark(ValueId id, const Node* node) { by_[id] = node; }
  const Node* among(const std::vector<ValueId>& ids) const {
    for (ValueId id : ids)
      if (by_[id]) return by_[id];
    return nullptr;
  }
  void report(Differentiator& d) const {
    for (ValueId id : f_.results)
      if (by_[id]) d.refuse(f_, *by_[id], Code::kNotDifferentiable, by_[id]->op->jvp.reason());
  }

 private:
  const Function& f_;
  std::vector<const Node*> by_;
};

}  // namespace

Pushed push_forward(Differentiator& d, FunctionBuilder& b, const Function& f, const std::vector<Val>& args,
                    const std::vector<MaybeVal>& arg_tangents) {
  Activity activity(f, presence(arg_tangents), std::vector<bool>(f.results.size(), true));
  std::vector<Val> values(f.values.size());
  std::vector<MaybeVal> tangents(f.values.size());
  Refusals refusals(f);
  for (size_t i = 0; i < args.size(); ++i) {
    values[f.params[i]] = args[i];
    if (activity.depends[f.params[i]]) tangents[f.params[i]] = arg_tangents[i];
  }
  for (const Node& node : f.nodes) {
    std::vector<Val> operands;
    std::vector<MaybeVal> in;
    for (ValueId id : node.operands) {
      operands.push_back(values[id]);
      in.push_back(tangents[id]);
    }
    bool pushes = any_present(in) && activity.any(node.results);
    // What its rule runs beside the tangents must not run twice where somebody would notice.
    bool by_rule = pushes && node.op->jvp.exists() && ir::has_effect(node, d.module());
    std::vector<Val> results = by_rule ? std::vector<Val>(node.results.size()) : b.clone(node, f, operands);
    for (size_t i = 0; i < results.size(); ++i) values[node.results[i]] = results[i];
    if (!pushes) continue;
    const Node* refusing = refusals.among(node.operands);
    std::optional<std::vector<MaybeVal>> pushed = push_node(d, b, f, node, operands, results, in);
    for (size_t i = 0; i < results.size(); ++i) values[node.results[i]] = results[i];
    if (!pushed) refusing = &node;
    std::vector<MaybeVal> out = pushed ? *pushed : zeros(b, results);
    NABLA_CHECK(out.size() == results.size(), "jvp of {}: {} tangents for {} results", node.op->name, out.size(),
                results.size());
    for (size_t i = 0; i < out.size(); ++i) {
      if (!activity.depends[node.results[i]]) continue;
      check_derivative(node, out[i], results[i].type(), "tangent");
      tangents[node.results[i]] = out[i];
      if (out[i]) refusals.mark(node.results[i], refusing);
    }
  }
  refusals.report(d);
  Pushed out;
  for (ValueId id : f.results) {
    out.values.push_back(values[id]);
    out.tangents.push_back(tangents[id]);
  }
  return out;
}

// ---- Reverse mode

ReverseSweep::ReverseSweep(Differentiator& d, FunctionBuilder& b, const Function& f, const std::vector<Val>& args,
                           const std::vector<bool>& active_params, const std::vector<bool>& wanted_results)
    : d_(d),
      b_(b),
      f_(f),
      activity_(f, active_params, wanted_results),
      values_(f.values.size()),
      cotangents_(f.values.size()),
      residuals_(f.nodes.size()) {
  for (size_t i = 0; i < args.size(); ++i) values_[f.params[i]] = args[i];
  for (size_t n = 0; n < f.nodes.size(); ++n) {
    const Node& node = f.nodes[n];
    std::vector<Val> results;
    if (node.op->vjp_forward && activity_.any(node.results)) {
      TypedOp op = typed(f, node);
      b.set_location(node.location);
      DerivativeFunctions functions(d, f, node);
      ir::VjpForwardContext ctx{b, op, pick(node.operands), wanted_operands(node), &functions};
      ir::VjpForward forward = node.op->vjp_forward(ctx);
      results = std::move(forward.results);
      residuals_[n] = std::move(forward.residuals);
    } else {
      results = b.clone(node, f, pick(node.operands));
    }
    for (size_t i = 0; i < results.size(); ++i) values_[node.results[i]] = results[i];
  }
}

std::vector<Val> ReverseSweep::pick(const std::vector<ValueId>& ids) const {
  std::vector<Val> out;
  for (ValueId id : ids) out.push_back(values_[id]);
  return out;
}

std::vector<bool> ReverseSweep::wanted_operands(const Node& node) const {
  std::vector<bool> out;
  for (ValueId id : node.operands) out.push_back(activity_.depends[id]);
  return out;
}

void ReverseSweep::accumulate(ValueId id, const MaybeVal& ct) {
  if (!ct) return;
  cotangents_[id] = cotangents_[id] ? *cotangents_[id] + *ct : *ct;
}

std::vector<MaybeVal> ReverseSweep::pull_back_node(size_t n, const std::vector<MaybeVal>& cotangents) {
  const Node& node = f_.nodes[n];
  TypedOp op = typed(f_, node);
  std::vector<bool> wanted = wanted_operands(node);
  if (node.op->vjp.exists()) {
    DerivativeFunctions functions(d_, f_, node);
    ir::VjpContext ctx{b_, op, pick(node.operands), pick(node.results), cotangents, wanted, residuals_[n], &functions};
    return node.op->vjp(ctx);
  }
  std::vector<MaybeVal> none(node.operands.size());
  if (!node.op->vjp.by_decomposition()) {
    d_.refuse(f_, node, Code::kNotDifferentiable, node.op->vjp.reason());
    return none;
  }
  if (!can_decompose(d_, f_, node)) return none;
  // The composite itself ran forward; its parts are computed again here, on the way back.
  Function parts = decomposition(op, node.location, d_.ops(), &d_.module());
  ReverseSweep inner(d_, b_, parts, pick(node.operands), wanted, presence(cotangents));
  return inner.pull_back(cotangents);
}

std::vector<MaybeVal> ReverseSweep::pull_back(const std::vector<MaybeVal>& cotangents) {
  for (size_t i = 0; i < cotangents.size(); ++i)
    if (activity_.active[f_.results[i]]) accumulate(f_.results[i], cotangents[i]);
  for (size_t n = f_.nodes.size(); n-- > 0;) {
    const Node& node = f_.nodes[n];
    std::vector<MaybeVal> ct;
    for (ValueId id : node.results) ct.push_back(cotangents_[id]);
    std::vector<bool> wanted = wanted_operands(node);
    if (!any_present(ct) || !any_of(wanted)) continue;
    b_.set_location(node.location);
    std::vector<MaybeVal> out = pull_back_node(n, ct);
    NABLA_CHECK(out.size() == node.operands.size(), "vjp of {}: {} cotangents for {} operands", node.op->name,
                out.size(), node.operands.size());
    b_.set_location(node.location);
    for (size_t i = 0; i < out.size(); ++i) {
      if (!wanted[i]) continue;
      check_derivative(node, out[i], f_.type(node.operands[i]), "cotangent");
      accumulate(node.operands[i], out[i]);
    }
  }
  std::vector<MaybeVal> out;
  for (ValueId id : f_.params) out.push_back(activity_.depends[id] ? cotangents_[id] : std::nullopt);
  return out;
}

}  // namespace nabla::passes
