#include "passes/shard/function_partition.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "passes/rewrite.h"
#include "passes/shard/agreed_predicates.h"
#include "passes/shard/factor_axes.h"
#include "passes/shard/free_values.h"
#include "passes/shard/granulate_sums.h"
#include "passes/shard/kernel_reference.h"
#include "passes/shard/layout.h"
#include "passes/shard/layout_nodes.h"
#include "passes/shard/loop_sums.h"
#include "passes/shard/manual_regions.h"
#include "passes/shard/microbatch.h"
#include "passes/shard/padding.h"
#include "passes/shard/parts.h"
#include "passes/shard/reshard.h"
#include "passes/shard/rules/rules.h"
#include "passes/shard/sum_points.h"
#include "passes/shard/waiting_sums.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Factors;
using ir::Function;
using ir::FunctionPtr;
using ir::Mesh;
using ir::Node;
using ir::Val;
using ir::ValueId;
using kernel_ir::Combiner;

/// One function's local form. Parameters and results have the layouts of the sharded function's values, but for what is
/// pending in a body.
class FunctionPartition {
 public:
  FunctionPartition(const Function& f, PartitionContext& context, LoopSums pending, size_t consts)
      : f_(f), all_(context), sharded_(context.sharded), local_(context.local), mesh_(context.mesh),
        rank_(context.rank), context_(context.pass),
        most_(context.most), bodies_(context.bodies), pending_(std::move(pending)), consts_(consts),
        b_(f.name, context.pass.ops, &context.local), parts_(f.values.size()), summed_(f.values.size(), false) {}

  Result<PartitionedFunction> run() {
    FunctionPtr made = NABLA_TRY(function());
    PartitionedFunction out{made, begun_, made_pending_, {}};
    for (size_t r = 0; r < f_.results.size(); ++r) out.pending_results.push_back(summed_[f_.results[r]] ? natural_[r] : Axes());
    return out;
  }

 private:
  Result<FunctionPtr> function() {
    for (size_t i = 0; i < f_.params.size(); ++i) {
      ValueId id = f_.params[i];
      Layout layout = declared(id);
      ir::Type type = f_.type(id);
      if (auto pending = pending_.carries.find(i); pending != pending_.carries.end())
        layout.pending = pending->second, type.dtype = share_type(type.dtype);
      parts_[id] = {b_.param(f_.values[id].name, local_type(mesh_, type, layout)), layout};
    }
    for (const Node& n : f_.nodes) {
      b_.set_location(n.location);
      NABLA_TRY(node(n));
      if (refusal_) return *refusal_;
    }
    b_.set_location(nullptr);
    std::vector<Val> results;
    for (ValueId id : f_.results) natural_.push_back(parts_[id].layout.pending);
    for (size_t r = 0; r < f_.results.size(); ++r) {
      ValueId id = f_.results[r];
      // Of a sum that stays so here the rest is combined.
      Axes stays;
      if (auto carry = pending_.carries.find(consts_ + r); carry != pending_.carries.end() && natural_[r] == carry->second)
        stays = carry->second;
      if (auto slice = pending_.stacked.find(r); slice != pending_.stacked.end()) stays = slice->second;
      Part part = {parts_[id].value, {parts_[id].layout.dims, without(natural_[r], stays)}};
      if (!stays.empty()) part.value = as_share(part.value);
      results.push_back(stays.empty() ? laid_out(id, declared(id)) : reshard(mesh_, rank_, part, beside(declared(id), stays)));
    }
    Function out = b_.finish(results);
    out.location = f_.location;
    return std::make_shared<const Function>(std::move(out));
  }

  std::set<ValueId> pending_params() const {
    std::set<ValueId> out;
    for (const auto& [param, axes] : pending_.carries) out.insert(f_.params[param]);
    return out;
  }
  // Shares of a sum of narrow floats are f32: they are rounded to the value's type once they are combined, as on one
  // device. A type whose sums the user wants to exchange as they are is rounded on every rank before.
  DType share_type(DType dtype) const { return dtype == exchanged_as_is_ ? dtype : accumulation_type(dtype); }
  Val as_share(Val v) const { return ir::convert(v, share_type(v.dtype())); }
  bool is_wide(ValueId id) const { return parts_[id].value.dtype() != f_.type(id).dtype; }
  Layout declared(ValueId id) const { return layout_of(f_.values[id].sharding, f_.type(id).rank()); }
  Val laid_out(ValueId id, const Layout& to) {
    // What is made of scalars is made as it is wanted, and not sent.
    if (comes_free(id) && !(parts_[id].layout == to))
      if (std::optional<Val> made = free_.part(id, to)) return *made;
    if (const Part& from = nearest(id, to); from.layout.pending.empty()) return reshard(mesh_, rank_, from, to);
    Part& part = parts_[id];
    // A sum is combined once for all who need it so, or to whom its parts are near.
    const DType dtype = f_.type(id).dtype;
    for (const ReshardStep& step : reshard_steps(mesh_, f_.type(id), part.layout, to)) {
      Axes rest = without(part.layout.pending, step.axes);
      if (step.kind != ReshardStep::kAllReduce || rest.size() + step.axes.size() != part.layout.pending.size()) break;
      part.value = all_reduce(mesh_, part.value, step.axes, Combiner::kSum);
      part.layout.pending = std::move(rest);
    }
    if (part.layout.pending.empty()) {
      part.value = ir::convert(part.value, dtype);
      return reshard(mesh_, rank_, part, to);
    }
    Val made = reshard(mesh_, rank_, part, to, dtype);
    combined_[id].push_back({made, to});
    return made;
  }
  // Of the value as it is and of what it was combined to, that from which the fewest bytes are sent.
  const Part& nearest(ValueId id, const Layout& to) const {
    const Part* best = &parts_[id];
    auto sent = [&](const Part& part) { return reshard_bytes(mesh_, f_.type(id), part.layout, to, part.value.dtype()); };
    if (auto combined = combined_.find(id); combined != combined_.end())
      for (const Part& part : combined->second)
        if (sent(part) < sent(*best)) best = &part;
    return *best;
  }
  Val whole(ValueId id) { return laid_out(id, layout_of(nullptr, f_.type(id).rank())); }
  void set(ValueId id, Val v, Layout layout) {
    if (layout.pending.empty()) v = ir::convert(v, f_.type(id).dtype);
    parts_[id] = {v, std::move(layout)};
    made_pending_[id] = parts_[id].layout.pending;
    const std::string& name = f_.values[id].name;
    if (!name.empty() && b_.function().values[v.id].name.empty()) b_.name_value(v, name);
  }

  Result<Ok> node(const Node& n) {
    if (is_border(n)) return border(n), Ok{};
    if (meets_padding(f_, n, mesh_)) return same_shards(n), Ok{};
    if (is_about_layouts(n)) {
      for (size_t r = 0; r < n.results.size(); ++r) {
        hand_on(n, r, declared(n.results[r]), declared(n.results[r]));
      }
      return Ok{};
    }
    switch (n.op->lower) {
      case ir::Lowering::kControl:
        return control(n);
      case ir::Lowering::kCall:
      case ir::Lowering::kTransform:
        return not_inlined(n);
      default:
        break;
    }
    if (n.op->lower == ir::Lowering::kConstant) return constant(n);
    if (!waiting_.take(n)) compute(n);
    return Ok{};
  }
  void compute(const Node& n) {
    for (ValueId id : n.operands) gather_at_point(id);
    if (n.op->traits.side_effect || !n.op->factors.exists() || !split(n)) computed_whole(n);
  }
  // The axes over which a sum stays pending in a value until somebody needs it complete.
  const Axes& hands_on_pending(ValueId id) const {
    static const Axes kNone;
    return sum_points_[id] ? kNone : parts_[id].layout.pending;
  }

  // Ranks have the parts already: only what they are called is another.
  void border(const Node& n) {
    Layout made = declared(n.results[0]);
    bool enters = n.op->layout_role == ir::LayoutRole::kEnter;
    Layout to = enters ? outside_of(n, made) : inside_of(n, made).value_or(declared(n.operands[0]));
    hand_on(n, 0, to, enters ? made : outside_of(n, to));
  }
  // The operand, laid out so, is the result, which is called something else.
  void hand_on(const Node& n, size_t i, const Layout& to, Layout made) {
    const ValueId id = n.operands[i];
    const auto& [v, from] = parts_[id];
    const bool pends = passes_sums_of_microbatches(mesh_, n, from) && beside(to, from.pending) == to;
    if (pends) made.pending = from.pending, summed_[n.results[i]] = summed_[id];
    set(n.results[i], pends ? reshard(mesh_, rank_, {v, {from.dims, {}}}, to) : laid_out(id, to), std::move(made));
  }

  // Before the first reader of a value that is gathered once for all of them.
  void gather_at_point(ValueId id) {
    if (!elementwise_.sources[id]) return;
    const Layout to = *std::exchange(elementwise_.sources[id], std::nullopt);
    Val gathered = laid_out(id, to);
    parts_[id] = {gathered, to};
  }

  // Uneven shards are as long as those of the padded array.
  void same_shards(const Node& n) {
    Layout layout = declared(n.op->form == ir::OpForm::kPad ? n.operands[0] : n.results[0]);
    set(n.results[0], laid_out(n.operands[0], layout), layout);
  }

  static Diagnostic not_inlined(const Node& n) {
    Diagnostic d = error(Code::kWrongStage, "{}: it has not been inlined", n.op->name);
    d.location = n.location, d.help = "run the passes in the order of `nablac doc passes`";
    return d;
  }

  // One value for all elements is as short as its part.
  Result<Ok> constant(const Node& n) {
    const Literal& value = n.attrs.get_literal("value");
    Layout layout = declared(n.results[0]);
    if (std::optional<Val> part = free_.constant(n, layout)) return set(n.results[0], *part, layout), Ok{};
    set(n.results[0], b_.clone(n, {})[0], layout_of(nullptr, value.rank()));
    return Ok{};
  }

  // Every rank does all of it.
  void computed_whole(const Node& n) {
    std::vector<Val> operands;
    for (ValueId id : n.operands) {
      bool cut = std::any_of(parts_[id].layout.dims.begin(), parts_[id].layout.dims.end(),
                             [](const Axes& a) { return !a.empty(); });
      if (cut) gathers(n, id, "is computed whole on every rank");
      operands.push_back(whole(id));
    }
    std::vector<Val> results = b_.clone(n, operands);
    for (size_t r = 0; r < results.size(); ++r)
      set(n.results[r], results[r], layout_of(nullptr, f_.type(n.results[r]).rank()));
  }

  // The op lacks a rule by which ranks would share the work: an operand is brought to all of them.
  void gathers(const Node& n, ValueId id, const std::string& why) {
    if (comes_free(id)) return;
    const std::string name = ir::value_name(f_, id);
    const int64_t bytes = f_.type(id).bytes().bounds().max;
    context_.remarks.push_back({ir::RemarkKind::kGathered, name,
                                fmt::format("{}{} {}: {} is gathered, {} bytes on every rank", n.op->name, at_place(n.location), why, name,
                                            bytes),
                                bytes});
    if (!refusal_) refusal_ = check_gathered(f_, n, id, why, most_);
  }

  // ---- By a rule of the op, where that sends no more than what follows from its factors.
  bool ruled(const Node& n, const ir::TypedOp& op, const Factors& factors, const std::vector<Axes>& axes) {
    RuleContext context{f_, n, op, factors, axes, mesh_, rank_, context_.options.deterministic, b_,
                        [&](size_t i) -> const Layout& { return parts_[n.operands[i]].layout; },
                        [&](size_t r) { return declared(n.results[r]); },
                        [&](size_t i, const Layout& to) {
                          say_what_is_gathered(n, factors, i, &to);
                          return laid_out(n.operands[i], to);
                        },
                        [&](size_t i) { return parts_[n.operands[i]].value; }, [&](Val v) { return as_share(v); },
                        [&](Function f) {
                          do f.name = fmt::format("{}.part{}", f_.name, ++defined_);
                          while (local_.find(f.name));
                          local_.set(std::make_shared<const Function>(f));
                          return ir::FunctionRef{f.name};
                        }};
    std::optional<Ruled> rule = by_rule(context);
    if (!rule || rule->bytes > sent(n, factors, axes) * (1 + 1e-9)) return false;
    std::vector<Val> results = rule->make();
    for (size_t r = 0; r < results.size(); ++r) {
      set(n.results[r], results[r], rule->layouts[r]);
      begin_sum(n.results[r], rule->layouts[r].pending);
    }
    return true;
  }

  // ---- By factors.
  bool split(const Node& n) {
    ir::TypedOp op = typed(f_, n);
    Factors factors = n.op->factors(op);
    std::vector<Axes> axes = cheapest_axes(n, factors);
    if (ruled(n, op, factors, axes)) return true;
    std::set<size_t> kept = may_stay_pending(n, axes);
    ir::Shard shard = shard_along(mesh_, rank_, op, factors, axes);
    ir::Attrs attrs = shard.attrs();
    if (std::any_of(axes.begin(), axes.end(), [](const Axes& a) { return !a.empty(); })) {
      std::vector<Layout> in, out;
      for (const Factors::Tensor& dims : factors.operands) in.push_back(layout(dims, factors, axes));
      for (const Factors::Tensor& dims : factors.results) out.push_back(layout(dims, factors, axes));
      attrs = with_reference_of_part(n, in, out, std::move(attrs), f_.name, all_);
    }
    if (!gives_types_of(shard, attrs, &local_)) return false;
    for (size_t i = 0; i < n.operands.size(); ++i) say_what_is_gathered(n, factors, i);
    say_what_a_reshape_gathers(n, factors, axes);
    std::vector<Val> operands;
    Axes pending;
    for (size_t i = 0; i < n.operands.size(); ++i) {
      const Part& part = parts_[n.operands[i]];
      Layout to = layout(factors.operands[i], factors, axes);
      if (kept.count(i) && !part.layout.pending.empty()) {
        pending = part.layout.pending;
        operands.push_back(reshard(mesh_, rank_, {part.value, {part.layout.dims, {}}}, to));
      } else {
        operands.push_back(laid_out(n.operands[i], to));
      }
    }
    std::vector<Val> results = computed(n, factors, axes, kept, operands, attrs);
    bool summed = std::any_of(kept.begin(), kept.end(), [&](size_t i) { return summed_[n.operands[i]]; });
    for (size_t r = 0; r < results.size(); ++r) {
      result(n, r, results[r], factors, axes, pending);
      const Axes& now = parts_[n.results[r]].layout.pending;
      if (now != pending) begin_sum(n.results[r], now);
      if (summed && !now.empty()) summed_[n.results[r]] = true;
    }
    return true;
  }

  // Emits the node on shards of its operands. A result that ranks sum later has the wide type of partial sums.
  std::vector<Val> computed(const Node& n, const Factors& factors, const std::vector<Axes>& axes, const std::set<size_t>& kept,
                            std::vector<Val> operands, const ir::Attrs& attrs) {
    if (!kept.empty() && narrows_sum(n)) return {operands[0]};
    if (makes_shares(n, factors, axes, kept)) {
      std::vector<Val> wide;
      for (const Val& v : operands) wide.push_back(is_float(v.dtype()) ? as_share(v) : v);
      Result<std::vector<Val>> made = b_.try_add(n.op->name, wide, attrs);
      if (made.ok()) return *made;
    }
    return b_.add(n.op->name, operands, attrs);
  }
  // The conversion of a sum to the narrow type in which one device rounds it: that comes after the sum over ranks.
  bool narrows_sum(const Node& n) const {
    return passes_sum_narrowed(f_, n) && parts_[n.operands[0]].value.dtype() == share_type(f_.type(n.results[0]).dtype);
  }
  // Does a rank have a share of a sum or product of narrow floats, of which others have the rest?
  bool makes_shares(const Node& n, const Factors& factors, const std::vector<Axes>& axes, const std::set<size_t>& kept) const {
    if (std::any_of(kept.begin(), kept.end(), [&](size_t i) { return is_wide(n.operands[i]); })) return true;
    const DType dtype = f_.type(n.results[0]).dtype;
    for (size_t f = 0; share_type(dtype) != dtype && f < axes.size(); ++f) {
      const Factors::Factor& factor = factors.factors[f];
      bool sums = factor.kind == Factors::Kind::kReduce && (factor.combiner == Combiner::kSum || factor.combiner == Combiner::kProd);
      if (sums && (!axes[f].empty() || !kept.empty())) return true;
    }
    return false;
  }

  // Along a dimension that no rule of the op splits: none of its axes is in the layout that a rule wants.
  void say_what_is_gathered(const Node& n, const Factors& factors, size_t i, const Layout* to = nullptr) {
    for (size_t d = 0; d < factors.operands[i].size(); ++d) {
      const std::vector<int>& dim = factors.operands[i][d];
      const Axes& axes = parts_[n.operands[i]].layout.dims[d];
      bool whole = std::any_of(dim.begin(), dim.end(), [&](int f) { return !can_split(factors.factors[f]); });
      bool used = to && std::any_of(to->dims.begin(), to->dims.end(), [&](const Axes& a) { return overlap(mesh_, a, axes); });
      if (whole && !axes.empty() && !used)
        gathers(n, n.operands[i],
                fmt::format("cannot be split along dimension {} of {}, which lies along {}", d,
                            ir::value_name(f_, n.operands[i]), ir::str(axes)));
    }
  }

  // Reports a reshape whose dimensions the shards do not divide: its operand is gathered, and all ranks repeat the work.
  void say_what_a_reshape_gathers(const Node& n, const Factors& factors, const std::vector<Axes>& axes) {
    if (n.op->form != ir::OpForm::kReshape) return;
    const Layout to = layout(factors.operands[0], factors, axes), wanted = declared(n.results[0]);
    for (size_t d = 0; d < to.dims.size(); ++d) {
      Axes lost = without_time(parts_[n.operands[0]].layout.dims[d]);
      for (const Layout* used : {&to, &wanted})
        for (const Axes& dim : used->dims) lost = without(std::move(lost), dim);
      if (!lost.empty())
        gathers(n, n.operands[0], fmt::format("to {} has no dimension that {} shards along {} divide", f_.type(n.results[0]).str(),
                                              shards(mesh_, lost), ir::str(lost)));
    }
  }

  Layout layout(const Factors::Tensor& dims, const Factors& factors, const std::vector<Axes>& axes) const {
    return layout_along(mesh_, dims, factors, axes);
  }

  // Sums over axes stay pending; other combinations are made at once.
  void result(const Node& n, size_t r, Val v, const Factors& factors, const std::vector<Axes>& axes, Axes pending) {
    Layout out = layout(factors.results[r], factors, axes);
    for (size_t f = 0; f < axes.size(); ++f) {
      const Factors::Factor& factor = factors.factors[f];
      if (axes[f].empty() || factor.kind != Factors::Kind::kReduce || has_factor(factors.results[r], static_cast<int>(f))) continue;
      if (factor.combiner == Combiner::kSum)
        pending.insert(pending.end(), axes[f].begin(), axes[f].end());
      else
        v = all_reduce(mesh_, v, axes[f], factor.combiner);
    }
    out.pending = std::move(pending);
    set(n.results[r], v, std::move(out));
  }

  // What the node computes with is brought to where it is wanted, or it computes with what there is and its results are
  // brought there: what sends fewer bytes. One gradient is fewer than the parameter and all that an optimizer remembers of it.
  std::vector<Axes> cheapest_axes(const Node& n, const Factors& factors) const {
    using From = FactorAxes::From;
    FactorAxes proposals(f_, mesh_, context_.options.deterministic, n, factors, [&](ValueId id) -> const Layout& { return asks_for(id); },
                         [&](ValueId id) { return wanted(id, factors); });
    std::vector<Axes> best = proposals.take(From::kResultsFirst), other = proposals.take(From::kOperandsFirst);
    if (best != other && sent(n, factors, best) > sent(n, factors, other)) best = std::move(other);
    if (!goes_over_elements(factors)) return best;
    if (std::any_of(n.operands.begin(), n.operands.end(), [&](ValueId id) { return !parts_[id].layout.pending.empty(); })) {
      // Sums that are pending in several operands are combined once, in what is made of them.
      std::vector<Axes> later = best;
      for (ValueId id : n.operands) later = axes_beside(mesh_, std::move(later), parts_[id].layout.pending);
      if (later != best && sent(n, factors, later) < sent(n, factors, best)) best = std::move(later);
    }
    // An update whose slots are cut further than the parameter along the same dimension computes with their parts.
    if (std::vector<Axes> longest = proposals.continued(best); longest != best && sent(n, factors, longest) < sent(n, factors, best))
      best = std::move(longest);
    if (n.results.size() == 1) return best;
    std::vector<Axes> wanted = proposals.take(From::kResults);
    return best == wanted || sent(n, factors, best) <= sent(n, factors, wanted) ? best : wanted;
  }
  // Is it made of scalars, none of which is a sum that ranks have yet to make?
  bool comes_free(ValueId id) const { return free_.has(id) && parts_[id].layout.pending.empty(); }
  // The layout that a value brings to a node. What is made of scalars comes in any.
  const Layout& asks_for(ValueId id) const { return comes_free(id) ? whole_[static_cast<size_t>(f_.type(id).rank())] : parts_[id].layout; }
  static std::vector<Layout> whole_layouts(const Function& f) {
    int most = 0;
    for (const ir::Value& v : f.values) most = std::max(most, v.type.rank());
    std::vector<Layout> out;
    for (int rank = 0; rank <= most; ++rank) out.push_back(layout_of(nullptr, rank));
    return out;
  }
  // An update of parts for readers of the whole alone is one of the whole.
  Layout wanted(ValueId id, const Factors& factors) const {
    if (!goes_over_elements(factors)) return declared(id);
    return elementwise_.layouts[id] ? *elementwise_.layouts[id] : read_[id];
  }
  double sent(const Node& n, const Factors& factors, const std::vector<Axes>& axes) const {
    std::set<size_t> kept = may_stay_pending(n, axes);
    double out = 0;
    Axes pending;
    for (size_t i = 0; i < n.operands.size(); ++i) {
      if (comes_free(n.operands[i])) continue;
      Layout to = layout(factors.operands[i], factors, axes);
      const bool stays = kept.count(i) && !parts_[n.operands[i]].layout.pending.empty();
      Layout from = stays ? parts_[n.operands[i]].layout : nearest(n.operands[i], to).layout;
      if (stays) pending = std::exchange(from.pending, {});
      out += reshard_bytes(mesh_, f_.type(n.operands[i]), from, to, parts_[n.operands[i]].value.dtype());
    }
    const bool shares = makes_shares(n, factors, axes, kept);
    for (size_t r = 0; r < n.results.size(); ++r) {
      Layout made = layout(factors.results[r], factors, axes);
      made.pending = pending;
      for (size_t f = 0; f < axes.size(); ++f)
        if (factors.factors[f].kind == Factors::Kind::kReduce && !has_factor(factors.results[r], static_cast<int>(f)))
          made.pending.insert(made.pending.end(), axes[f].begin(), axes[f].end());
      const DType dtype = f_.type(n.results[r]).dtype;
      out += reshard_bytes(mesh_, f_.type(n.results[r]), made, wanted(n.results[r], factors), shares ? share_type(dtype) : dtype);
    }
    return out;
  }


  // The operands that may go in pending: where the op is linear in them, over axes that split nothing. Zeros count as pending sums if
  // the op needs all of its operands so.
  std::set<size_t> may_stay_pending(const Node& n, const std::vector<Axes>& axes) const {
    std::set<size_t> with, with_zeros;
    for (size_t i = 0; i < n.operands.size(); ++i) {
      const bool pends = !parts_[n.operands[i]].layout.pending.empty();
      if (pends) with.insert(i);
      if (pends || zeros_[n.operands[i]]) with_zeros.insert(i);
    }
    if (with.empty() || ranks_differ(n, axes, parts_[n.operands[*with.begin()]].layout.pending)) return {};
    const Axes& pending = parts_[n.operands[*with.begin()]].layout.pending;
    bool same = std::all_of(with.begin(), with.end(),
                            [&](size_t i) { return parts_[n.operands[i]].layout.pending == pending; });
    bool here = std::any_of(with.begin(), with.end(), [&](size_t i) { return sum_points_[n.operands[i]]; });
    const bool region = n.operands.size() == 1 && passes_sums_of_microbatches(mesh_, n, parts_[n.operands[0]].layout);
    if (!same || here) return {};
    if (region || passes_sums(f_, n, with) || narrows_sum(n)) return with;
    return passes_sums(f_, n, with_zeros) ? with_zeros : std::set<size_t>();
  }
  // Would a factor be split, or an operand be laid out, along what is pending?
  bool ranks_differ(const Node& n, const std::vector<Axes>& axes, const Axes& pending) const {
    bool out = std::any_of(axes.begin(), axes.end(), [&](const Axes& a) { return overlap(mesh_, a, pending); });
    for (ValueId id : n.operands)
      for (const Axes& a : parts_[id].layout.dims) out |= overlap(mesh_, a, pending);
    return out;
  }

  // ---- Control flow: operands as the functions' parameters are laid out, results as theirs.
  Result<Ok> control(const Node& n) {
    ir::ControlFlow c = ir::control_of(f_, n);
    bool branch = c.kind == ir::ControlFlow::Kind::kBranch;
    LoopSums pending;
    if (auto known = bodies_.find(c.functions.back()); known != bodies_.end()) pending = known->second;
    std::vector<Val> operands;
    for (size_t i = 0; i < n.operands.size(); ++i) {
      Layout to = declared(n.operands[i]);
      // Every rank runs all iterations, so an operand that is sliced per iteration is replicated along that dimension.
      if (!branch && i >= static_cast<size_t>(c.consts + c.carries)) {
        if (const Axes axes = without_time(to.dims[0]); !axes.empty())
          gathers(n, n.operands[i], fmt::format("runs all iterations on every rank, but dimension 0 of {}, of which each takes a "
                                                "slice, is sharded over {}", ir::value_name(f_, n.operands[i]), ir::str(axes)));
        to.dims[0].clear();
      }
      bool index = branch && i == 0;
      auto sum = pending.carries.find(i);
      operands.push_back(index                          ? whole(n.operands[i])
                         : sum != pending.carries.end() ? as_summand(n.operands[i], to, sum->second)
                                                        : laid_out(n.operands[i], to));
    }
    // What they exchange inside needs all of them: ranks that rounded a predicate differently would wait for ever.
    ir::Attrs attrs = n.attrs;
    if (Axes axes = agreement_of(sharded_, f_, n, local_, mesh_).axes; !axes.empty()) {
      if (branch)
        operands[0] = agreed(mesh_, operands[0], axes);
      else
        attrs.set("cond", with_agreed_result(*local_.find(c.functions[0]), axes, local_, context_.ops));
    }
    Result<std::vector<Val>> results = b_.try_add(n.op->name, operands, attrs);
    if (!results.ok()) return std::move(results.errors());
    for (size_t r = 0; r < results->size(); ++r) {
      Layout layout = declared(n.results[r]);
      if (!branch && r >= static_cast<size_t>(c.carries)) layout.dims[0].clear();
      if (r < static_cast<size_t>(c.carries)) {
        if (auto sum = pending.carries.find(static_cast<size_t>(c.consts) + r); sum != pending.carries.end())
          layout.pending = sum->second;
      } else if (auto sum = pending.stacked.find(r); sum != pending.stacked.end()) {
        layout = beside(std::move(layout), sum->second), layout.pending = sum->second;
      }
      begin_sum(n.results[r], layout.pending);
      set(n.results[r], (*results)[r], std::move(layout));
    }
    return Ok{};
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
    begun_[ir::str(axes)] = axes;
  }
  // A value of which the sum over ranks has one.
  Val as_summand(ValueId id, const Layout& to, const Axes& axes) {
    if (parts_[id].layout.pending == axes)
      return as_share(reshard(mesh_, rank_, {parts_[id].value, {parts_[id].layout.dims, {}}}, to));
    return as_share(on_first_of(laid_out(id, to), rank_, axes));
  }

  const Function& f_;
  PartitionContext& all_;
  const ir::Module& sharded_;
  ir::Module& local_;
  int defined_ = 0;  // functions that rules have added to it
  const Mesh& mesh_;
  const RankSymbols& rank_;
  PassContext& context_;
  int64_t most_;
  const SumsOfBodies& bodies_;
  LoopSums pending_;
  size_t consts_;
  std::optional<Diagnostic> refusal_;
  ir::FunctionBuilder b_;
  std::vector<Part> parts_;    // by value
  const std::vector<Layout> read_ = layouts_that_are_read(f_);
  const std::vector<Layout> whole_ = whole_layouts(f_);  // by rank
  std::map<ValueId, std::vector<Part>> combined_;  // pending values with their sums made
  std::vector<char> sum_points_ = sum_points(f_, pending_params());
  const std::vector<char> zeros_ = zeros_of(f_);
  GatheredEarlier elementwise_ = gathered_earlier(f_);
  std::optional<DType> exchanged_as_is_ = narrow_exchange(context_);
  FreeValues free_{f_, mesh_, rank_, b_, [this](ValueId id, const Layout& to) { return laid_out(id, to); }};
  WaitingSums waiting_{f_, [this](ValueId id) -> const Axes& { return hands_on_pending(id); }, [this](const Node& n) { compute(n); }};
  std::vector<char> summed_;   // by value: is a sum that was begun here pending in it?
  std::map<std::string, Axes> begun_;
  std::vector<Axes> made_pending_ = std::vector<Axes>(f_.values.size());
  std::vector<Axes> natural_;  // by result: what is pending before it is brought to its layout
};

}  // namespace

Result<PartitionedFunction> partition_function(const Function& f, PartitionContext& context, const LoopSums& pending, size_t consts) {
  return FunctionPartition(f, context, pending, consts).run();
}

}  // namespace nabla::passes
