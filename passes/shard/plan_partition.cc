#include "passes/shard/plan_partition.h"

#include <algorithm>
#include <set>
#include <utility>

#include "passes/rewrite.h"
#include "passes/shard/layout_nodes.h"
#include "passes/shard/local_values.h"
#include "passes/shard/manual_regions.h"
#include "passes/shard/microbatch.h"
#include "passes/shard/padding.h"
#include "passes/shard/parts.h"
#include "passes/shard/rules/rules.h"
#include "passes/shard/split_costs.h"
#include "passes/shard/waiting_sums.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Factors;
using ir::Node;
using ir::ValueId;

class PartitionPlanner {
 public:
  PartitionPlanner(const ir::Function& f, const PartitionContext& context, const LoopSums& pending, size_t consts)
      : f_(f),
        context_(context),
        mesh_(context.mesh),
        pending_(pending),
        consts_(consts),
        summed_(f.values.size(), false),
        unused_("plan", context.pass.ops) {
    plan_.function = f.name;
  }

  Result<PartitionPlan> run() {
    plan_params();
    for (const Node& n : f_.nodes) {
      (void)NABLA_TRY(plan_node(n));
      if (refusal_) return *refusal_;
    }
    plan_results();
    return std::move(plan_);
  }

 private:
  // ---- Borders of the function

  std::set<ValueId> pending_params() const {
    std::set<ValueId> out;
    for (const auto& [param, axes] : pending_.carries) out.insert(f_.params[param]);
    return out;
  }

  void plan_params() {
    for (size_t i = 0; i < f_.params.size(); ++i) {
      ValueId id = f_.params[i];
      Layout layout = values_.declared(id);
      ir::Type type = f_.type(id);
      if (auto pending = pending_.carries.find(i); pending != pending_.carries.end())
        layout.pending = pending->second, type.dtype = values_.share_type(type.dtype);
      plan_.param_types.push_back(local_type(mesh_, type, layout));
      plan_.params.push_back(values_.add(LocalParam{}));
      values_.start(id, {plan_.params.back(), layout, type.dtype});
    }
  }

  void plan_results() {
    std::vector<Axes> natural;  // what is pending in a result before it has its layout
    for (ValueId id : f_.results) natural.push_back(values_.at(id).layout.pending);
    for (size_t r = 0; r < f_.results.size(); ++r) {
      ValueId id = f_.results[r];
      // Of a sum that stays pending here the rest is combined.
      Axes stays;
      if (auto carry = pending_.carries.find(consts_ + r); carry != pending_.carries.end() && natural[r] == carry->second)
        stays = carry->second;
      if (auto slice = pending_.stacked.find(r); slice != pending_.stacked.end()) stays = slice->second;
      const Layout to = values_.declared(id);
      plan_.results.push_back(stays.empty() ? values_.bring(id, to) : values_.bring_share(id, natural[r], stays, beside(to, stays)));
      plan_.pending_results.push_back(summed_[id] ? natural[r] : Axes());
    }
  }

  // ---- Nodes

  Status plan_node(const Node& n) {
    if (is_border(n)) return plan_border(n), Ok{};
    if (meets_padding(f_, n, mesh_)) return plan_same_shards(n), Ok{};
    if (is_about_layouts(n)) {
      PlannedNode& planned = begin(n, NodePlan::kNone);
      for (size_t r = 0; r < n.results.size(); ++r) {
        const Layout to = values_.declared(n.results[r]);
        hand_on(planned, r, to, to);
      }
      return Ok{};
    }
    switch (n.op->lower) {
      case ir::Lowering::kControl:
        return plan_control(n), Ok{};
      case ir::Lowering::kCall:
      case ir::Lowering::kTransform:
        return not_inlined(n);
      case ir::Lowering::kConstant:
        return plan_constant(n), Ok{};
      default:
        break;
    }
    if (!waiting_.take(n)) compute(n);
    return Ok{};
  }

  static Diagnostic not_inlined(const Node& n) {
    Diagnostic d = error(Code::kWrongStage, "{}: it has not been inlined", n.op->name);
    d.location = n.location, d.help = "run the passes in the order of `nablac doc passes`";
    return d;
  }

  // A node of the plan, with its operands as they are now.
  PlannedNode& begin(const Node& n, NodePlan how) {
    PlannedNode planned{&n, how, {}, {}, {}, {}, {}, {}, false, {}};
    for (ValueId id : n.operands) planned.layouts.push_back(values_.at(id).layout), planned.values.push_back(values_.at(id).slot);
    plan_.nodes.push_back(std::move(planned));
    return plan_.nodes.back();
  }
  void read(PlannedNode& planned, Slot slot, Layout layout) {
    planned.operands.push_back(slot), planned.brought.push_back(std::move(layout));
  }
  Slot result_of(size_t r) { return values_.add(NodeResult{plan_.nodes.size() - 1, r}); }
  void set(PlannedNode& planned, size_t r, Slot slot, std::optional<DType> dtype, Layout layout) {
    planned.results.push_back(values_.set(planned.node->results[r], slot, dtype, std::move(layout)));
  }

  // The operand, in the layout `to`, is the result, in which the layout is called `made`.
  void hand_on(PlannedNode& planned, size_t i, const Layout& to, Layout made) {
    const Node& n = *planned.node;
    const ValueId id = n.operands[i];
    const Layout from = values_.at(id).layout;
    const DType dtype = values_.at(id).dtype;
    const bool pends = passes_sums_of_microbatches(mesh_, n, from) && beside(to, from.pending) == to;
    if (pends) made.pending = from.pending, summed_[n.results[i]] = summed_[id];
    const Slot slot = pends ? values_.bring_pending(id, to) : values_.bring(id, to);
    read(planned, slot, {to.dims, pends ? from.pending : Axes()});
    set(planned, i, slot, pends ? dtype : f_.type(id).dtype, std::move(made));
  }

  // Ranks have the shards already. Only what the layout is called changes.
  void plan_border(const Node& n) {
    Layout made = values_.declared(n.results[0]);
    bool enters = n.op->layout_role == ir::LayoutRole::kEnter;
    Layout to = enters ? outside_of(n, made) : inside_of(n, made).value_or(values_.declared(n.operands[0]));
    hand_on(begin(n, NodePlan::kNone), 0, to, enters ? made : outside_of(n, to));
  }

  // Uneven shards are as long as those of the padded array.
  void plan_same_shards(const Node& n) {
    Layout layout = values_.declared(n.op->form == ir::OpForm::kPad ? n.operands[0] : n.results[0]);
    PlannedNode& planned = begin(n, NodePlan::kNone);
    const Slot slot = values_.bring(n.operands[0], layout);
    read(planned, slot, layout);
    set(planned, 0, slot, f_.type(n.operands[0]).dtype, layout);
  }

  // One value for all elements is as short as the shard.
  void plan_constant(const Node& n) {
    Layout layout = values_.declared(n.results[0]);
    if (std::optional<Slot> shard = values_.free_constant(n, layout))
      return set(begin(n, NodePlan::kNone), 0, *shard, f_.type(n.results[0]).dtype, layout);
    PlannedNode& planned = begin(n, NodePlan::kReplicated);
    set(planned, 0, result_of(0), f_.type(n.results[0]).dtype, layout_of(nullptr, f_.type(n.results[0]).rank()));
  }

  void compute(const Node& n) {
    std::vector<Slot> first;
    for (ValueId id : n.operands)
      if (std::optional<Layout> to = costs_.gathered_before(id)) values_.gather(id, *to), first.push_back(values_.at(id).slot);
    const bool splits = !n.op->traits.side_effect && n.op->factors.exists();
    if (!splits || !split(n, first)) plan_replicated(n, first);
  }

  // Every rank does all of it.
  void plan_replicated(const Node& n, std::vector<Slot> first) {
    PlannedNode& planned = begin(n, NodePlan::kReplicated);
    planned.first = std::move(first);
    for (ValueId id : n.operands) {
      const std::vector<Axes>& dims = values_.at(id).layout.dims;
      if (std::any_of(dims.begin(), dims.end(), [](const Axes& a) { return !a.empty(); }))
        note_gathered(n, id, "is computed whole on every rank");
      read(planned, values_.replicated(id), layout_of(nullptr, f_.type(id).rank()));
    }
    for (size_t r = 0; r < n.results.size(); ++r)
      set(planned, r, result_of(r), f_.type(n.results[r]).dtype, layout_of(nullptr, f_.type(n.results[r]).rank()));
  }

  // ---- By factors, or by a rule of the op where that sends no more

  bool split(const Node& n, const std::vector<Slot>& first) {
    ir::TypedOp op = typed(f_, n);
    Factors factors = n.op->factors(op);
    std::vector<Axes> axes = costs_.cheapest_axes(n, factors);
    if (by_rule_of_op(n, op, factors, axes, first)) return true;
    const std::set<size_t> kept = costs_.may_stay_pending(n, axes);
    const ir::Shard shard = shard_along(mesh_, context_.rank, op, factors, axes);
    ir::Attrs attrs = shard.attrs();
    if (n.op->form == ir::OpForm::kCustomCall)  // emission finds the reference of the shard
      for (const char* name : {"reference", "vjp"}) attrs.set(name, ir::FunctionRefs());
    if (!gives_types_of(shard, attrs, &context_.local)) return false;
    for (size_t i = 0; i < n.operands.size(); ++i) note_gathered_dims(n, factors, i);
    note_reshape(n, factors, axes);
    const bool shares = costs_.makes_shares(n, factors, axes, kept), narrows = !kept.empty() && costs_.narrows_sum(n);
    const bool summed = std::any_of(kept.begin(), kept.end(), [&](size_t i) { return summed_[n.operands[i]]; });
    PlannedNode& planned = begin(n, narrows ? NodePlan::kNone : NodePlan::kSplit);
    planned.first = first, planned.axes = axes;
    Axes pending;
    std::vector<ir::Type> types;  // of the operands on a rank
    for (size_t i = 0; i < n.operands.size(); ++i) {
      const ValueId id = n.operands[i];
      const Layout to = layout_along(mesh_, factors.operands[i], factors, axes);
      const bool stays = kept.count(i) && !values_.at(id).layout.pending.empty();
      const DType dtype = stays ? values_.at(id).dtype : f_.type(id).dtype;
      if (stays) pending = values_.at(id).layout.pending;
      read(planned, stays ? values_.bring_pending(id, to) : values_.bring(id, to), {to.dims, stays ? pending : Axes()});
      types.push_back(local_type(mesh_, {dtype, f_.type(id).shape}, to));
    }
    std::vector<DType> dtypes;
    for (ValueId id : n.results) dtypes.push_back(f_.type(id).dtype);
    if (narrows) dtypes = {types[0].dtype};
    if (shares && !narrows) planned.shares = as_shares(n, attrs, types, dtypes);
    for (size_t r = 0; r < n.results.size(); ++r) {
      const Slot slot = narrows ? planned.operands[0] : result_of(r);
      set_split(planned, r, slot, dtypes[r], factors, axes, pending);
      const Axes& now = planned.results.back().layout.pending;
      if (now != pending) begin_sum(n.results[r], now);
      if (summed && !now.empty()) summed_[n.results[r]] = true;
    }
    return true;
  }

  // Can the node compute shares, with its operands converted to their type? If so, `dtypes` become those of its results.
  bool as_shares(const Node& n, const ir::Attrs& attrs, std::vector<ir::Type> types, std::vector<DType>& dtypes) const {
    for (ir::Type& t : types)
      if (is_float(t.dtype)) t.dtype = values_.share_type(t.dtype);
    auto functions = [&](std::string_view name) { return context_.local.find(std::string(name)); };
    Result<std::vector<ir::Type>> made = ir::infer_types(*n.op, types, attrs, functions);
    if (!made.ok()) return false;
    for (size_t r = 0; r < dtypes.size(); ++r) dtypes[r] = (*made)[r].dtype;
    return true;
  }

  // Sums over axes stay pending. Other combinations are made at once.
  void set_split(PlannedNode& planned, size_t r, Slot slot, DType dtype, const Factors& factors, const std::vector<Axes>& axes,
                 Axes pending) {
    Layout out = layout_along(mesh_, factors.results[r], factors, axes);
    for (size_t f = 0; f < axes.size(); ++f) {
      const Factors::Factor& factor = factors.factors[f];
      if (axes[f].empty() || factor.kind != Factors::Kind::kReduce || has_factor(factors.results[r], static_cast<int>(f))) continue;
      if (factor.combiner == kernel_ir::Combiner::kSum)
        pending.insert(pending.end(), axes[f].begin(), axes[f].end());
      else
        slot = values_.add(Reduced{slot, axes[f], factor.combiner});
    }
    out.pending = std::move(pending);
    set(planned, r, slot, dtype, std::move(out));
  }

  bool by_rule_of_op(const Node& n, const ir::TypedOp& op, const Factors& factors, const std::vector<Axes>& axes,
                     const std::vector<Slot>& first) {
    RuleContext question{f_,
                         n,
                         op,
                         factors,
                         axes,
                         mesh_,
                         context_.rank,
                         context_.pass.options.deterministic,
                         unused_,
                         [&](size_t i) -> const Layout& { return values_.at(n.operands[i]).layout; },
                         [&](size_t r) { return values_.declared(n.results[r]); },
                         nullptr,
                         nullptr,
                         nullptr,
                         nullptr};
    std::optional<Ruled> rule = by_rule(question);
    if (!rule || rule->bytes > costs_.sent(n, factors, axes) * (1 + 1e-9)) return false;
    PlannedNode& planned = begin(n, NodePlan::kByRule);
    planned.first = first, planned.axes = axes;
    for (size_t i = 0; i < rule->operands.size(); ++i) {
      const std::optional<Layout>& to = rule->operands[i];
      const bool brought = to && to->pending.empty();
      if (brought) note_gathered_dims(n, factors, i, &*to);
      read(planned, brought ? values_.bring(n.operands[i], *to) : -1, to.value_or(planned.layouts[i]));
    }
    for (size_t r = 0; r < rule->layouts.size(); ++r) {
      const Layout& layout = rule->layouts[r];
      const DType own = f_.type(n.results[r]).dtype;
      // Some rules compute shares of sums that they combine themselves: their results are converted.
      std::optional<DType> dtype;
      if (!layout.pending.empty()) dtype = rule->shares ? values_.share_type(own) : own;
      set(planned, r, result_of(r), dtype, layout);
      begin_sum(n.results[r], layout.pending);
    }
    return true;
  }

  // ---- What is gathered

  // The op lacks a rule by which ranks would share the work, so that an operand is brought to all of them.
  void note_gathered(const Node& n, ValueId id, const std::string& why) {
    if (values_.comes_free(id)) return;
    const std::string name = ir::value_name(f_, id);
    const int64_t bytes = f_.type(id).bytes().bounds().max;
    plan_.remarks.push_back(
        {ir::RemarkKind::kGathered, name,
         fmt::format("{}{} {}: {} is gathered, {} bytes on every rank", n.op->name, at_place(n.location), why, name, bytes), bytes});
    if (!refusal_) refusal_ = check_gathered(f_, n, id, why, context_.most);
  }

  // Along a dimension that no rule of the op splits: none of its axes is in the layout that a rule wants.
  void note_gathered_dims(const Node& n, const Factors& factors, size_t i, const Layout* to = nullptr) {
    for (size_t d = 0; d < factors.operands[i].size(); ++d) {
      const std::vector<int>& dim = factors.operands[i][d];
      const Axes& axes = values_.at(n.operands[i]).layout.dims[d];
      bool whole = std::any_of(dim.begin(), dim.end(), [&](int f) { return !can_split(factors.factors[f]); });
      bool used = to && std::any_of(to->dims.begin(), to->dims.end(), [&](const Axes& a) { return overlap(mesh_, a, axes); });
      if (whole && !axes.empty() && !used)
        note_gathered(n, n.operands[i],
                      fmt::format("cannot be split along dimension {} of {}, which lies along {}", d, ir::value_name(f_, n.operands[i]),
                                  ir::str(axes)));
    }
  }

  // A reshape whose dimensions the shards do not divide: its operand is gathered, and all ranks repeat the work.
  void note_reshape(const Node& n, const Factors& factors, const std::vector<Axes>& axes) {
    if (n.op->form != ir::OpForm::kReshape) return;
    const Layout to = layout_along(mesh_, factors.operands[0], factors, axes), wanted = values_.declared(n.results[0]);
    for (size_t d = 0; d < to.dims.size(); ++d) {
      Axes lost = without_time(values_.at(n.operands[0]).layout.dims[d]);
      for (const Layout* used : {&to, &wanted})
        for (const Axes& dim : used->dims) lost = without(std::move(lost), dim);
      if (!lost.empty())
        note_gathered(n, n.operands[0],
                      fmt::format("to {} has no dimension that {} shards along {} divide", f_.type(n.results[0]).str(),
                                  shards(mesh_, lost), ir::str(lost)));
    }
  }

  // ---- Control flow: operands have the layouts of the functions' parameters, and results those of their results

  void plan_control(const Node& n) {
    ir::ControlFlow c = ir::control_of(f_, n);
    bool branch = c.kind == ir::ControlFlow::Kind::kBranch;
    LoopSums pending;
    if (auto known = context_.bodies.find(c.functions.back()); known != context_.bodies.end()) pending = known->second;
    PlannedNode& planned = begin(n, NodePlan::kControl);
    for (size_t i = 0; i < n.operands.size(); ++i) {
      Layout to = values_.declared(n.operands[i]);
      // Every rank runs all iterations, so an operand that is sliced per iteration is replicated along that dimension.
      if (!branch && i >= static_cast<size_t>(c.consts + c.carries)) {
        if (const Axes axes = without_time(to.dims[0]); !axes.empty())
          note_gathered(n, n.operands[i],
                        fmt::format("runs all iterations on every rank, but dimension 0 of {}, of which each takes a "
                                    "slice, is sharded over {}",
                                    ir::value_name(f_, n.operands[i]), ir::str(axes)));
        to.dims[0].clear();
      }
      auto sum = pending.carries.find(i);
      if (branch && i == 0) to = layout_of(nullptr, f_.type(n.operands[i]).rank());
      if (sum != pending.carries.end())
        read(planned, values_.bring_as_summand(n.operands[i], to, sum->second), {to.dims, sum->second});
      else
        read(planned, values_.bring(n.operands[i], to), to);
    }
    for (size_t r = 0; r < n.results.size(); ++r) {
      Layout layout = values_.declared(n.results[r]);
      if (!branch && r >= static_cast<size_t>(c.carries)) layout.dims[0].clear();
      if (r < static_cast<size_t>(c.carries)) {
        if (auto sum = pending.carries.find(static_cast<size_t>(c.consts) + r); sum != pending.carries.end()) layout.pending = sum->second;
      } else if (auto sum = pending.stacked.find(r); sum != pending.stacked.end()) {
        layout = beside(std::move(layout), sum->second), layout.pending = sum->second;
      }
      begin_sum(n.results[r], layout.pending);
      const DType own = f_.type(n.results[r]).dtype, dtype = layout.pending.empty() ? own : values_.share_type(own);
      set(planned, r, result_of(r), dtype, std::move(layout));
    }
  }

  Axes without_time(Axes axes) const {
    std::erase_if(axes, [&](const ir::AxisRef& a) { return is_temporal(mesh_, {a}); });
    return axes;
  }
  // The layout without the axes over which a sum is pending.
  static Layout beside(Layout layout, const Axes& pending) {
    for (Axes& dim : layout.dims) dim = without(std::move(dim), pending);
    return layout;
  }
  void begin_sum(ValueId id, const Axes& axes) {
    if (axes.empty()) return;
    summed_[id] = true;
    plan_.begun[ir::str(axes)] = axes;
  }

  const ir::Function& f_;
  const PartitionContext& context_;
  const ir::Mesh& mesh_;
  const LoopSums& pending_;
  size_t consts_;
  PartitionPlan plan_;
  LocalValues values_{f_, mesh_, context_.rank, narrow_exchange(context_.pass), plan_};
  SplitCosts costs_{f_, mesh_, context_.pass.options.deterministic, values_, pending_params()};
  WaitingSums waiting_{f_, [this](ValueId id) -> const Axes& { return costs_.hands_on_pending(id); },
                       [this](const Node& n) { compute(plan_.made.emplace_back(n)); }};
  std::vector<char> summed_;  // by value: is a sum that began here pending in it?
  std::optional<Diagnostic> refusal_;
  ir::FunctionBuilder unused_;  // rules that are asked whether they fit emit nothing
};

}  // namespace

Result<PartitionPlan> plan_partition(const ir::Function& f, const PartitionContext& context, const LoopSums& pending, size_t consts) {
  return PartitionPlanner(f, context, pending, consts).run();
}

}  // namespace nabla::passes
