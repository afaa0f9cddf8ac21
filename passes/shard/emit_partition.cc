// The local function of a plan: nodes are emitted as the plan says, and nothing is decided.
#include <algorithm>
#include <utility>

#include "passes/rewrite.h"
#include "passes/shard/agreed_predicates.h"
#include "passes/shard/kernel_reference.h"
#include "passes/shard/local_values.h"
#include "passes/shard/plan_partition.h"
#include "passes/shard/rules/rules.h"
#include "passes/shard/sum_points.h"

namespace nabla::passes {
namespace {

using ir::Val;

/// Builds the local function. A value is emitted when a node needs it, so that it stands right before its first reader.
class PartitionEmitter {
 public:
  PartitionEmitter(const PartitionPlan& plan, const ir::Function& f, PartitionContext& context)
      : plan_(plan),
        f_(f),
        context_(context),
        exchanged_as_is_(narrow_exchange(context.pass)),
        b_(f.name, context.pass.ops, &context.local),
        values_(plan.values.size()) {}

  Result<ir::FunctionPtr> run() {
    for (size_t i = 0; i < plan_.params.size(); ++i)
      values_[plan_.params[i]] = b_.param(f_.values[f_.params[i]].name, plan_.param_types[i]);
    results_.resize(plan_.nodes.size());
    for (size_t n = 0; n < plan_.nodes.size(); ++n) (void)NABLA_TRY(emit(n));
    b_.set_location(nullptr);
    std::vector<Val> results;
    for (Slot slot : plan_.results) results.push_back(value(slot));
    ir::Function out = b_.finish(results);
    out.location = f_.location;
    return std::make_shared<const ir::Function>(std::move(out));
  }

 private:
  Status emit(size_t at) {
    const PlannedNode& n = plan_.nodes[at];
    b_.set_location(n.node->location);
    for (Slot slot : n.first) (void)value(slot);
    switch (n.how) {
      case NodePlan::kNone:
        break;
      case NodePlan::kReplicated:
        results_[at] = b_.clone(*n.node, operands_of(n));
        break;
      case NodePlan::kSplit:
        results_[at] = split(n);
        break;
      case NodePlan::kByRule:
        results_[at] = by_rule_of_op(n);
        break;
      case NodePlan::kControl:
        results_[at] = NABLA_TRY(control(n));
        break;
    }
    for (size_t r = 0; r < n.results.size(); ++r) name(value(n.results[r].slot), f_.values[n.node->results[r]].name);
    return Ok{};
  }
  void name(Val v, const std::string& name) {
    if (!name.empty() && b_.function().values[v.id].name.empty()) b_.name_value(v, name);
  }

  std::vector<Val> operands_of(const PlannedNode& n) {
    std::vector<Val> out;
    for (Slot slot : n.operands) out.push_back(value(slot));
    return out;
  }

  // ---- Values

  Val value(Slot slot) {
    std::optional<Val>& known = values_[static_cast<size_t>(slot)];
    if (!known) known = std::visit([&](const auto& v) { return make(v); }, plan_.values[static_cast<size_t>(slot)]);
    return *known;
  }
  Val make(const LocalParam&) {
    NABLA_CHECK(false, "{}: a parameter is not there", f_.name);
    return {};
  }
  Val make(const NodeResult& v) { return results_[v.node].at(v.result); }
  Val make(const Resharded& v) { return by_steps(context_.mesh, context_.rank, value(v.from), v.layout.pending, v.steps, v.made); }
  Val make(const Reduced& v) { return all_reduce(context_.mesh, value(v.from), v.axes, v.combiner); }
  Val make(const Converted& v) { return ir::convert(value(v.from), v.dtype); }
  Val make(const OnFirstRank& v) { return on_first_of(value(v.from), context_.rank, v.axes); }
  Val make(const LocalConstant& v) { return b_.constant(v.value); }
  Val make(const LocalNode& v) {
    std::vector<Val> operands;
    for (Slot slot : v.operands) operands.push_back(value(slot));
    return b_.op(v.node->op->name, operands, v.attrs);
  }
  Val as_share(Val v) const { return ir::convert(v, share_type(v.dtype(), exchanged_as_is_)); }

  // ---- Nodes

  std::vector<Val> split(const PlannedNode& n) {
    const ir::TypedOp op = typed(f_, *n.node);
    const ir::Factors factors = n.node->op->factors(op);
    ir::Attrs attrs = shard_along(context_.mesh, context_.rank, op, factors, n.axes).attrs();
    if (std::any_of(n.axes.begin(), n.axes.end(), [](const ir::Axes& a) { return !a.empty(); })) {
      std::vector<Layout> made;
      for (const ir::Factors::Tensor& dims : factors.results) made.push_back(layout_along(context_.mesh, dims, factors, n.axes));
      attrs = with_reference_of_part(*n.node, n.brought, made, std::move(attrs), f_.name, context_);
    }
    std::vector<Val> operands = operands_of(n);
    for (Val& v : operands)
      if (n.shares && is_float(v.dtype())) v = as_share(v);
    return b_.add(n.node->op->name, operands, attrs);
  }

  std::vector<Val> by_rule_of_op(const PlannedNode& n) {
    const ir::TypedOp op = typed(f_, *n.node);
    const ir::Factors factors = n.node->op->factors(op);
    auto declared = [&](size_t r) {
      const ir::Value& v = f_.values[n.node->results[r]];
      return layout_of(v.sharding, v.type.rank());
    };
    auto part = [&](size_t i, const Layout& to) {
      NABLA_CHECK(i < n.operands.size() && n.operands[i] >= 0 && n.brought[i] == to, "{}: operand {} is brought as its plan does not say",
                  n.node->op->name, i);
      return value(n.operands[i]);
    };
    auto define = [&](ir::Function f) {
      do f.name = fmt::format("{}.part{}", f_.name, ++defined_);
      while (context_.local.find(f.name));
      context_.local.set(std::make_shared<const ir::Function>(f));
      return ir::FunctionRef{f.name};
    };
    RuleContext context{f_,
                        *n.node,
                        op,
                        factors,
                        n.axes,
                        context_.mesh,
                        context_.rank,
                        context_.pass.options.deterministic,
                        b_,
                        [&](size_t i) -> const Layout& { return n.layouts[i]; },
                        declared,
                        part,
                        [&](size_t i) { return value(n.values[i]); },
                        [&](Val v) { return as_share(v); },
                        define};
    std::vector<Val> made = by_rule(context)->make();
    for (size_t r = 0; r < made.size(); ++r)
      NABLA_CHECK(n.results[r].layout.pending.empty() || made[r].dtype() == n.results[r].dtype, "{}: a share is {}, its plan says {}",
                  n.node->op->name, name_of(made[r].dtype()), name_of(n.results[r].dtype));
    return made;
  }

  Result<std::vector<Val>> control(const PlannedNode& n) {
    const ir::ControlFlow c = ir::control_of(f_, *n.node);
    std::vector<Val> operands = operands_of(n);
    // What they exchange inside needs all ranks: ranks that rounded a predicate differently would wait for ever.
    ir::Attrs attrs = n.node->attrs;
    if (ir::Axes axes = agreement_of(context_.sharded, f_, *n.node, context_.local, context_.mesh).axes; !axes.empty()) {
      if (c.kind == ir::ControlFlow::Kind::kBranch)
        operands[0] = agreed(context_.mesh, operands[0], axes);
      else
        attrs.set("cond", with_agreed_result(*context_.local.find(c.functions[0]), axes, context_.local, context_.pass.ops));
    }
    return b_.try_add(n.node->op->name, operands, attrs);
  }

  const PartitionPlan& plan_;
  const ir::Function& f_;
  PartitionContext& context_;
  std::optional<DType> exchanged_as_is_;
  int defined_ = 0;  // functions that rules have added to the local module
  ir::FunctionBuilder b_;
  std::vector<std::optional<Val>> values_;  // by slot
  std::vector<std::vector<Val>> results_;   // by node of the plan
};

}  // namespace

Result<ir::FunctionPtr> emit_partition(const PartitionPlan& plan, const ir::Function& f, PartitionContext& context) {
  return PartitionEmitter(plan, f, context).run();
}

}  // namespace nabla::passes
