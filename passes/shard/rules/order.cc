// Extremes with their positions: every rank finds its own, and the best of them are chosen.
#include <algorithm>

#include "ir/cost/exchange.h"
#include "passes/shard/rules/families.h"
#include "passes/shard/rules/split.h"

namespace nabla::passes {

using ir::Axes;
using ir::Val;
using kernel_ir::Combiner;

// Two all_reduces of a row: the extreme, then the first position of those that have it. NaN wins in both.
static std::optional<Ruled> position_of_extreme(const RuleContext& c) {
  int64_t axis = c.n.attrs.get_int("axis");
  bool max = c.n.op->rank_rule == ir::RankRule::kArgmax;
  const Axes& axes = c.layout(0).dims[axis];
  if (axes.empty()) return std::nullopt;
  Split split(c, axes);
  split.along(c.factors.operands[0], axis, axes);
  if (!split.fits()) return std::nullopt;
  Layout in = split.operand(0), out = split.result(0);
  int64_t ranks = shards(c.mesh, axes);
  const ir::Type& positions = c.f.type(c.n.results[0]);
  double bytes = bytes_of_part(c, positions, out);
  bytes += bytes / bytes_of(positions.dtype) * static_cast<double>(bytes_of(c.f.type(c.n.operands[0]).dtype));
  const double sent = ir::sent_bytes(CollectiveKind::kAllReduce, ranks, bytes);
  Ruled ruled{{out}, bytes_brought(c, 0, in) + sent + bytes_returned(c, 0, out), nullptr};
  ruled.operands = {in};
  ruled.make = [=, attrs = split.attrs(), &c] {
    Val x = c.part(0, in), at = c.b.op(c.n.op->name, {x}, attrs);
    Val top = c.b.op(max ? "reduce_max" : "reduce_min", {x}, {{"axes", ir::Ints{axis}}});
    Val holds = c.b.op("eq", {top, all_reduce(c.mesh, top, axes, max ? Combiner::kMax : Combiner::kMin)});
    if (is_float(x.dtype())) holds = c.b.op("or", {holds, c.b.op("is_nan", {top})});
    const ir::Shape &placed = attrs.get_shape("whole"), &whole = placed.empty() ? c.op.operands[0].shape : placed;
    Val none = c.b.like(at, static_cast<double>(whole[axis].bounds().max));
    return std::vector<Val>{all_reduce(c.mesh, ir::select(holds, at, none), axes, Combiner::kMin)};
  };
  return ruled;
}

// The k best of every rank stand in the order of the ranks, so that those that tie stay in the order of the whole.
static std::optional<Ruled> top_of_candidates(const RuleContext& c) {
  int64_t axis = c.n.attrs.get_int("axis"), k = c.n.attrs.get_int("k");
  const Axes& axes = c.layout(0).dims[axis];
  const ir::Dim& extent = c.op.operands[0].shape[axis];
  if (axes.empty() || k == 0 || !extent.is_static()) return std::nullopt;
  int64_t ranks = shards(c.mesh, axes), own = extent.value() / ranks, candidates = std::min(k, own);
  Split split(c, axes);
  Layout in = split.operand(0), out = in;
  in.dims[axis] = axes;
  double bytes = 0;
  for (ir::ValueId id : c.n.results) bytes += bytes_of_part(c, c.f.type(id), out);
  bytes = bytes / static_cast<double>(k) * static_cast<double>(candidates);
  Ruled ruled{{out, out}, bytes_brought(c, 0, in) + ir::sent_bytes(CollectiveKind::kAllGather, ranks, bytes), nullptr};
  for (size_t r : {0, 1}) ruled.bytes += bytes_returned(c, r, out);
  ruled.operands = {in};
  ruled.make = [=, &c] {
    ir::Attrs attrs = c.n.attrs;
    attrs.set("k", candidates);
    std::vector<Val> mine = c.b.add("top_k", {c.part(0, in)}, attrs);
    Val first = ir::convert(scalar(c.b, c.rank.coordinate(axes) * own), mine[1].dtype());
    Val values = all_gather(c, mine[0], axes, axis);
    Val places = all_gather(c, mine[1] + spread(first, mine[1].shape()), axes, axis);
    std::vector<Val> best = c.b.add("top_k", {values}, c.n.attrs);
    return std::vector<Val>{best[0], taken_along(places, best[1], axis)};
  };
  return ruled;
}

std::span<const OpRule> order_rules() {
  constexpr const char* kExtreme =
      "each rank finds its own; an all_reduce of the extreme, and one of the first position that has it";
  using ir::RankRule;
  static const OpRule kRules[] = {
      {RankRule::kArgmax, position_of_extreme, nullptr, kExtreme},
      {RankRule::kArgmin, position_of_extreme, nullptr, kExtreme},
      {RankRule::kTopK, top_of_candidates, nullptr, "the best of each rank are gathered, and the best of those are taken"},
  };
  return kRules;
}

}  // namespace nabla::passes
