#include "passes/shard/split_costs.h"

#include <algorithm>
#include <utility>

#include "passes/shard/factor_axes.h"
#include "passes/shard/manual_regions.h"
#include "passes/shard/padding.h"

namespace nabla::passes {

using ir::Axes;
using ir::Factors;
using ir::Node;
using ir::ValueId;

SplitCosts::SplitCosts(const ir::Function& f, const ir::Mesh& mesh, bool deterministic, const LocalValues& values,
                       const std::set<ValueId>& pending)
    : f_(f),
      mesh_(mesh),
      deterministic_(deterministic),
      values_(values),
      read_(layouts_that_are_read(f)),
      sum_points_(sum_points(f, pending)),
      zeros_(zeros_of(f)),
      elementwise_(gathered_earlier(f)) {}

const Axes& SplitCosts::hands_on_pending(ValueId id) const {
  static const Axes kNone;
  return sum_points_[id] ? kNone : values_.at(id).layout.pending;
}

// If all readers want the value gathered, an update of shards is one of the whole.
Layout SplitCosts::wanted(ValueId id, const Factors& factors) const {
  if (!goes_over_elements(factors)) return values_.declared(id);
  return elementwise_.layouts[id] ? *elementwise_.layouts[id] : read_[id];
}

std::vector<Axes> SplitCosts::cheapest_axes(const Node& n, const Factors& factors) const {
  using From = FactorAxes::From;
  FactorAxes proposals(
      f_, mesh_, deterministic_, n, factors, [&](ValueId id) -> const Layout& { return values_.asks_for(id); },
      [&](ValueId id) { return wanted(id, factors); });
  std::vector<Axes> best = proposals.take(From::kResultsFirst), other = proposals.take(From::kOperandsFirst);
  if (best != other && sent(n, factors, best) > sent(n, factors, other)) best = std::move(other);
  if (!goes_over_elements(factors)) return best;
  if (std::any_of(n.operands.begin(), n.operands.end(), [&](ValueId id) { return !values_.at(id).layout.pending.empty(); })) {
    // Sums that are pending in several operands are combined once, in what is made of them.
    std::vector<Axes> later = best;
    for (ValueId id : n.operands) later = axes_beside(mesh_, std::move(later), values_.at(id).layout.pending);
    if (later != best && sent(n, factors, later) < sent(n, factors, best)) best = std::move(later);
  }
  // If an update's slots are sharded further than the parameter along the same dimension, the update computes with their shards.
  if (std::vector<Axes> longest = proposals.continued(best); longest != best && sent(n, factors, longest) < sent(n, factors, best))
    best = std::move(longest);
  if (n.results.size() == 1) return best;
  std::vector<Axes> of_results = proposals.take(From::kResults);
  return best == of_results || sent(n, factors, best) <= sent(n, factors, of_results) ? best : of_results;
}

double SplitCosts::sent(const Node& n, const Factors& factors, const std::vector<Axes>& axes) const {
  std::set<size_t> kept = may_stay_pending(n, axes);
  double out = 0;
  Axes pending;
  for (size_t i = 0; i < n.operands.size(); ++i) {
    if (values_.comes_free(n.operands[i])) continue;
    const LocalState& now = values_.at(n.operands[i]);
    Layout to = layout_along(mesh_, factors.operands[i], factors, axes);
    const bool stays = kept.count(i) && !now.layout.pending.empty();
    Layout from = stays ? now.layout : values_.nearest(n.operands[i], to).layout;
    if (stays) pending = std::exchange(from.pending, {});
    out += reshard_bytes(mesh_, f_.type(n.operands[i]), from, to, now.dtype);
  }
  const bool shares = makes_shares(n, factors, axes, kept);
  for (size_t r = 0; r < n.results.size(); ++r) {
    Layout made = layout_along(mesh_, factors.results[r], factors, axes);
    made.pending = pending;
    for (size_t f = 0; f < axes.size(); ++f)
      if (factors.factors[f].kind == Factors::Kind::kReduce && !has_factor(factors.results[r], static_cast<int>(f)))
        made.pending.insert(made.pending.end(), axes[f].begin(), axes[f].end());
    const DType dtype = f_.type(n.results[r]).dtype;
    out += reshard_bytes(mesh_, f_.type(n.results[r]), made, wanted(n.results[r], factors), shares ? values_.share_type(dtype) : dtype);
  }
  return out;
}

std::set<size_t> SplitCosts::may_stay_pending(const Node& n, const std::vector<Axes>& axes) const {
  auto pending_in = [&](size_t i) -> const Axes& { return values_.at(n.operands[i]).layout.pending; };
  std::set<size_t> with, with_zeros;
  for (size_t i = 0; i < n.operands.size(); ++i) {
    const bool pends = !pending_in(i).empty();
    if (pends) with.insert(i);
    if (pends || zeros_[n.operands[i]]) with_zeros.insert(i);
  }
  if (with.empty() || ranks_differ(n, axes, pending_in(*with.begin()))) return {};
  const Axes& pending = pending_in(*with.begin());
  bool same = std::all_of(with.begin(), with.end(), [&](size_t i) { return pending_in(i) == pending; });
  bool here = std::any_of(with.begin(), with.end(), [&](size_t i) { return sum_points_[n.operands[i]]; });
  const bool region = n.operands.size() == 1 && passes_sums_of_microbatches(mesh_, n, values_.at(n.operands[0]).layout);
  if (!same || here) return {};
  if (region || passes_sums(f_, n, with) || narrows_sum(n)) return with;
  return passes_sums(f_, n, with_zeros) ? with_zeros : std::set<size_t>();
}

// Would a factor be split, or an operand be sharded, over the axes of the pending sum?
bool SplitCosts::ranks_differ(const Node& n, const std::vector<Axes>& axes, const Axes& pending) const {
  bool out = std::any_of(axes.begin(), axes.end(), [&](const Axes& a) { return overlap(mesh_, a, pending); });
  for (ValueId id : n.operands)
    for (const Axes& a : values_.at(id).layout.dims) out |= overlap(mesh_, a, pending);
  return out;
}

bool SplitCosts::narrows_sum(const Node& n) const {
  return passes_sum_narrowed(f_, n) && values_.at(n.operands[0]).dtype == values_.share_type(f_.type(n.results[0]).dtype);
}

bool SplitCosts::makes_shares(const Node& n, const Factors& factors, const std::vector<Axes>& axes, const std::set<size_t>& kept) const {
  if (std::any_of(kept.begin(), kept.end(), [&](size_t i) { return values_.is_wide(n.operands[i]); })) return true;
  const DType dtype = f_.type(n.results[0]).dtype;
  for (size_t f = 0; values_.share_type(dtype) != dtype && f < axes.size(); ++f) {
    const Factors::Factor& factor = factors.factors[f];
    bool sums = factor.kind == Factors::Kind::kReduce &&
                (factor.combiner == kernel_ir::Combiner::kSum || factor.combiner == kernel_ir::Combiner::kProd);
    if (sums && (!axes[f].empty() || !kept.empty())) return true;
  }
  return false;
}

}  // namespace nabla::passes
