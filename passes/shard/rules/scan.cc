// Running sums, products and extremes along a dimension that is cut: each rank has those of its part, and what the
// parts before it come to is combined with them. Only that is sent, a slice per rank.
#include "ir/cost/exchange.h"
#include "passes/shard/rules/families.h"
#include "passes/shard/rules/split.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Ints;
using ir::Shape;
using ir::Val;

struct Scan {
  const char *op, *reduce, *combine;
};
constexpr Scan kScans[] = {{"cumsum", "reduce_sum", "add"},       {"cumprod", "reduce_prod", "mul"},
                           {"cummax", "reduce_max", "maximum"},   {"cummin", "reduce_min", "minimum"},
                           {"cumargmax", "reduce_max", "cummax"}, {"cumargmin", "reduce_min", "cummin"}};
const Scan& scan_of(const std::string& op) {
  for (const Scan& s : kScans)
    if (op == s.op) return s;
  NABLA_CHECK(false, "{} is no scan", op);
  return kScans[0];
}

// What all of a rank's part comes to, of every rank: [.., ranks, ..].
Val totals(const RuleContext& c, Val x, const Axes& axes, int64_t axis) {
  Val total = c.b.op(scan_of(c.n.op->name).reduce, {x}, {{"axes", Ints{axis}}});
  Shape one = x.shape();
  one[axis] = 1;
  return all_gather(c, ir::reshape(total, one), axes, axis);
}
// The slice of this rank among those of all, for every element of a part of this shape.
Val of_rank(const RuleContext& c, Val slices, const Axes& axes, int64_t axis, const Shape& part) {
  Val mine = section(slices, axis, c.rank.coordinate(axes), 1);
  Shape without = mine.shape();
  without.erase(without.begin() + axis);
  return ir::broadcast_along(ir::reshape(mine, without), part, {axis});
}

struct ScanCut {
  int64_t axis;
  Axes axes;
  Layout layout;
  double sent;  ///< of one slice of every rank, of the operand's type
};
std::optional<ScanCut> cut_of(const RuleContext& c) {
  int64_t axis = c.n.attrs.get_int("axis");
  const Axes& axes = c.layout(0).dims[axis];
  const ir::Dim& extent = c.op.operands[0].shape[axis];
  if (axes.empty() || extent.bounds().min < 1) return std::nullopt;
  Split split(c, axes);
  split.along(c.factors.operands[0], axis, axes);
  Layout layout = split.operand(0);
  double own = static_cast<double>(extent.bounds().max / shards(c.mesh, axes));
  double slice = bytes_of_part(c, c.op.operands[0], layout) / own;
  return ScanCut{axis, axes, layout, ir::sent_bytes(CollectiveKind::kAllGather, shards(c.mesh, axes), slice)};
}

Val any_nan(Val v) {
  Val no = v.b->fill(DType::kBool, v.shape(), 0);
  return is_float(v.dtype()) ? v.b->op("is_nan", {v}) : no;
}

}  // namespace

static std::optional<Ruled> running(const RuleContext& c) {
  std::optional<ScanCut> cut = cut_of(c);
  if (!cut) return std::nullopt;
  Ruled ruled{{cut->layout}, bytes_brought(c, 0, cut->layout) + cut->sent + bytes_returned(c, 0, cut->layout), nullptr};
  ruled.operands = {cut->layout};
  ruled.make = [cut = *cut, &c] {
    const bool rounds = c.n.op->rank_rule == ir::RankRule::kRunningSum;
    Val x = rounds ? c.share(c.part(0, cut.layout)) : c.part(0, cut.layout), own = c.b.op(c.n.op->name, {x}, c.n.attrs);
    ir::Attrs before = c.n.attrs;
    before.set("exclusive", true);
    Val prefixes = c.b.op(c.n.op->name, {totals(c, x, cut.axes, cut.axis)}, before);
    Val prefix = of_rank(c, prefixes, cut.axes, cut.axis, x.shape());
    return std::vector<Val>{c.b.op(scan_of(c.n.op->name).combine, {prefix, own})};
  };
  return ruled;
}

// The extreme of the parts before this one, where it is: that holds until an element is better.
static std::optional<Ruled> running_position(const RuleContext& c) {
  std::optional<ScanCut> cut = cut_of(c);
  if (!cut) return std::nullopt;
  double wide =
      static_cast<double>(bytes_of(c.op.results[0].dtype)) / static_cast<double>(bytes_of(c.op.operands[0].dtype));
  Ruled ruled{{cut->layout},
              bytes_brought(c, 0, cut->layout) + cut->sent * (1 + wide) + bytes_returned(c, 0, cut->layout),
              nullptr};
  ruled.operands = {cut->layout};
  ruled.make = [cut = *cut, &c] {
    const ir::Attrs& attrs = c.n.attrs;
    ir::FunctionBuilder& b = c.b;
    bool max = c.n.op->rank_rule == ir::RankRule::kRunningArgmax, back = attrs.get_bool("reverse");
    Val x = c.part(0, cut.layout);
    const Shape& shape = x.shape();
    DType dtype = attrs.get_dtype("dtype");
    Val begin = ir::convert(scalar(b, c.rank.coordinate(cut.axes) * shape[cut.axis]), dtype);
    Val own = b.op(c.n.op->name, {x}, attrs);
    own = own + spread(begin, shape);
    // The last position of the scan is that of the whole part.
    Val last = section(own, cut.axis, back ? ir::Dim(0) : shape[cut.axis] - 1, 1);
    Val places = all_gather(c, last, cut.axes, cut.axis), tops = totals(c, x, cut.axes, cut.axis);
    ir::Attrs scan{{"axis", cut.axis}, {"reverse", back}};
    const char* extremes = scan_of(c.n.op->name).combine;
    // Which of the parts so far has it, and then those before each.
    Val which = b.op(c.n.op->name, {tops}, scan), best = taken_along(places, which, cut.axis);
    Ints low(static_cast<size_t>(x.rank()), 0), high = low;
    low[static_cast<size_t>(cut.axis)] = back ? -1 : 1, high[static_cast<size_t>(cut.axis)] = back ? 1 : -1;
    Val zero = b.constant(Literal::scalar(dtype, 0));
    best = b.op("pad", {best, zero}, {{"low", low}, {"high", high}, {"interior", Ints(low.size(), 0)}});
    scan.set("exclusive", true);
    Val top = of_rank(c, b.op(extremes, {tops}, scan), cut.axes, cut.axis, shape);
    best = of_rank(c, best, cut.axes, cut.axis, shape);
    scan.set("exclusive", false);
    Val now = b.op(extremes, {x}, scan);
    Val better = b.op(max ? "gt" : "lt", {now, top});
    Val first_nan = b.op("and", {any_nan(now), b.op("not", {any_nan(top)})});
    Val mine = b.op("or", {better, first_nan});
    // The first rank of the scan has nothing before it.
    int64_t ranks = shards(c.mesh, cut.axes);
    Val at = scalar(b, c.rank.coordinate(cut.axes));
    Val alone = spread(b.op("eq", {at, b.like(at, static_cast<double>(back ? ranks - 1 : 0))}), shape);
    return std::vector<Val>{ir::select(b.op("or", {mine, alone}), own, best)};
  };
  return ruled;
}

static Ties along_axis(const ir::TypedOp& op) {
  auto axis = static_cast<size_t>(op.attrs.get_int("axis"));
  return {{{false, 0, axis}, {true, 0, axis}}};
}

std::span<const OpRule> scan_rules() {
  constexpr const char* kRunning =
      "each rank combines its part; an all_gather of one slice per rank gives what is before it";
  using ir::RankRule;
  static const OpRule kRules[] = {
      {RankRule::kRunningSum, running, along_axis, kRunning, true},
      {RankRule::kRunningExtreme, running, along_axis, kRunning},
      {RankRule::kRunningArgmax, running_position, along_axis, kRunning},
      {RankRule::kRunningArgmin, running_position, along_axis, kRunning},
  };
  return kRules;
}

}  // namespace nabla::passes
