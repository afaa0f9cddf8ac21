// Ops that cut and join along a dimension that ranks share: elements go to the ranks whose shards of the result they
// are in, and nowhere else.
#include <algorithm>

#include "passes/shard/rules/families.h"
#include "passes/shard/rules/halo.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Dim;
using ir::Ints;
using ir::Shape;
using ir::Val;

/// Along one dimension: what a rank needs of the operand, and what it then does by itself.
struct Cut {
  int64_t dim;
  Axes axes;
  Window window;
  bool pending = false;                     ///< the result is whole; each rank has its elements of it, zeros elsewhere
  int64_t stride = 1;                       ///< of a slice, after the window
  int64_t low = 0, high = 0, interior = 0;  ///< of a pad, after the window
};

/// The op along a dimension: y[low + i * spread] = x[start + i * stride] for the elements that there are.
struct Move {
  int64_t start = 0, stride = 1, low = 0, spread = 1;
};
std::optional<Move> move_of(const RuleContext& c, size_t d) {
  const ir::Attrs& a = c.n.attrs;
  Move out;
  if (c.n.op->rank_rule == ir::RankRule::kSlice) {
    out.start = a.get_ints("starts")[d], out.stride = a.get_ints("strides")[d];
  } else if (c.n.op->rank_rule == ir::RankRule::kPad) {
    out.low = a.get_ints("low")[d], out.spread = a.get_ints("interior")[d] + 1;
  } else if (static_cast<int64_t>(d) == a.get_int("axis")) {
    const Dim& first = a.get_shape("range")[0];
    if (!first.is_static()) return std::nullopt;
    out.start = first.value();
  }
  return out;
}

// The window and what follows, for `own` elements of the result per rank, from own * step on; a step of 0: all have the
// same.
std::optional<Cut> cut_along(size_t d, const Axes& axes, const Move& m, int64_t own, bool all) {
  if (own == 0 || own % m.spread != 0) return std::nullopt;
  Cut out{static_cast<int64_t>(d), axes, {}, all};
  int64_t first = ceil_div(-m.low, m.spread), last = floor_div(own - 1 - m.low, m.spread), count = last - first + 1;
  if (count <= 0) return std::nullopt;
  out.stride = m.stride, out.interior = m.spread - 1;
  out.low = m.low + first * m.spread, out.high = own - out.low - (count - 1) * m.spread - 1;
  out.window = {own / m.spread * m.stride, m.start + first * m.stride, (count - 1) * m.stride + 1};
  if (all) out.window.step = 0;
  return out;
}

/// All dimensions that are cut where no factor passes; nothing where one of them does not fit.
std::optional<std::vector<Cut>> cuts_of(const RuleContext& c) {
  std::vector<Cut> out;
  const ir::Type &x = c.op.operands[0], &y = c.op.results[0];
  for (size_t d = 0; d < x.shape.size(); ++d) {
    const Axes& axes = c.layout(0).dims[d];
    if (axes.empty() || can_split(c.factors.factors[c.factors.operands[0][d][0]])) continue;
    std::optional<Move> move = move_of(c, d);
    if (!move || !x.shape[d].is_static() || !y.shape[d].is_static()) return std::nullopt;
    int64_t ranks = shards(c.mesh, axes), size = y.shape[d].value();
    bool stays = size % ranks == 0;
    std::optional<Cut> cut = cut_along(d, axes, *move, stays ? size / ranks : size, !stays);
    // Where the padding is no zero, or there is no sum, the result cannot be one over ranks.
    bool sums = x.dtype != DType::kBool && c.n.op->rank_rule != ir::RankRule::kPad;
    if (!cut || (cut->pending && !sums)) return std::nullopt;
    out.push_back(std::move(*cut));
  }
  if (out.empty()) return std::nullopt;
  return out;
}

int64_t elements_sent(const RuleContext& c, const Cut& cut) {
  if (cut.pending) return 0;
  int64_t ranks = shards(c.mesh, cut.axes);
  return elements_sent(ranks, c.op.operands[0].shape[cut.dim].value() / ranks, cut.window);
}

Val cut_part(const RuleContext& c, Val x, const Cut& cut, const std::optional<Val>& fill) {
  int64_t own = x.shape()[cut.dim].value();
  if (cut.pending) return placed(x, cut.dim, c.rank.coordinate(cut.axes) * own - cut.window.first, cut.window.count);
  return fill ? window(c, x, cut.dim, cut.axes, cut.window, *fill) : window(c, x, cut.dim, cut.axes, cut.window);
}

// What is left of a slice or a pad once the windows are there; other dimensions are as the node says.
Val locally(const RuleContext& c, Val x, const std::vector<Cut>& cuts, const std::optional<Val>& fill) {
  if (fill) {
    Ints low = c.n.attrs.get_ints("low"), high = c.n.attrs.get_ints("high"), interior = c.n.attrs.get_ints("interior");
    for (const Cut& cut : cuts) low[cut.dim] = cut.low, high[cut.dim] = cut.high, interior[cut.dim] = cut.interior;
    auto none = [](const Ints& list) {
      return std::all_of(list.begin(), list.end(), [](int64_t v) { return v == 0; });
    };
    if (none(low) && none(high) && none(interior)) return x;
    return c.b.op("pad", {x, *fill}, {{"low", low}, {"high", high}, {"interior", interior}});
  }
  if (c.n.op->rank_rule != ir::RankRule::kSlice) return x;
  Ints starts = c.n.attrs.get_ints("starts"), limits = c.n.attrs.get_ints("limits"),
       strides = c.n.attrs.get_ints("strides");
  bool any = false;
  for (const Cut& cut : cuts) starts[cut.dim] = 0, limits[cut.dim] = -1, strides[cut.dim] = cut.stride;
  for (size_t d = 0; d < starts.size(); ++d) any |= starts[d] != 0 || limits[d] != -1 || strides[d] != 1;
  return any ? c.b.op("slice", {x}, {{"starts", starts}, {"limits", limits}, {"strides", strides}}) : x;
}

/// The axes along which the dimension of a concatenation lies: those that are wanted, or of the largest operand.
Axes axes_of_join(const RuleContext& c, size_t axis) {
  Axes out = c.wanted(0).dims[axis];
  int64_t most = -1;
  for (size_t i = 0; out.empty() && i < c.n.operands.size(); ++i) {
    int64_t size = c.op.operands[i].shape[axis].bounds().max;
    if (c.layout(i).dims[axis].empty() || size <= most) continue;
    out = c.layout(i).dims[axis], most = size;
  }
  return out;
}

bool is_static_along(const RuleContext& c, size_t axis) {
  return std::all_of(c.op.operands.begin(), c.op.operands.end(),
                     [&](const ir::Type& t) { return t.shape[axis].is_static(); });
}

}  // namespace

static std::optional<Ruled> cut_or_pad(const RuleContext& c) {
  std::optional<std::vector<Cut>> cuts = cuts_of(c);
  if (!cuts) return std::nullopt;
  Axes taken;
  for (const Cut& cut : *cuts) taken.insert(taken.end(), cut.axes.begin(), cut.axes.end());
  Split split(c, taken);
  Layout in = split.operand(0), out = split.result(0);
  for (const Cut& cut : *cuts) {
    in.dims[cut.dim] = cut.axes;
    if (!cut.pending) out.dims[cut.dim] = cut.axes;
  }
  bool pads = c.n.op->rank_rule == ir::RankRule::kPad;
  if (!pads) in.pending = kept_pending(c, {0}, {in});
  out.pending = in.pending;
  double bytes = bytes_brought(c, 0, in), part = bytes_of_part(c, c.op.operands[0], in);
  for (const Cut& cut : *cuts) {
    if (cut.pending) out.pending.insert(out.pending.end(), cut.axes.begin(), cut.axes.end());
    double own = c.op.operands[0].shape[cut.dim].bounds().max / static_cast<double>(shards(c.mesh, cut.axes));
    bytes += part / own * static_cast<double>(elements_sent(c, cut));
    part *= static_cast<double>(cut.window.count) / own;
  }
  Ruled ruled{{out}, bytes + bytes_returned(c, 0, out), nullptr};
  ruled.operands = {in}, ruled.shares = !in.pending.empty();
  if (pads) ruled.operands.push_back(Layout());
  ruled.make = [=, cuts = *cuts, &c] {
    Val x = brought(c, 0, in);
    std::optional<Val> fill;
    if (pads) fill = c.part(1, {});
    bool zeros = pads && is_zero(c, 1);
    for (const Cut& cut : cuts) x = cut_part(c, x, cut, zeros ? std::nullopt : fill);
    return std::vector<Val>{locally(c, x, cuts, fill)};
  };
  return ruled;
}

// Rank r has the elements of rank n - 1 - r, turned round.
static std::optional<Ruled> reversed(const RuleContext& c) {
  Ints turned;
  Axes taken;
  for (int64_t d : c.n.attrs.get_ints("axes"))
    if (const Axes& axes = c.layout(0).dims[d]; !axes.empty()) {
      turned.push_back(d);
      taken.insert(taken.end(), axes.begin(), axes.end());
    }
  if (turned.empty()) return std::nullopt;
  Layout in = Split(c, taken).operand(0);
  for (int64_t d : turned) in.dims[d] = c.layout(0).dims[d];
  in.pending = kept_pending(c, {0}, {in});
  double bytes = bytes_of_part(c, c.op.operands[0], in) * static_cast<double>(turned.size());
  Ruled ruled{{in}, bytes_brought(c, 0, in) + bytes + bytes_returned(c, 0, in), nullptr};
  ruled.operands = {in}, ruled.shares = true;
  ruled.make = [=, &c] {
    Val x = brought(c, 0, in);
    for (int64_t d : turned) {
      Ints pairs;
      for (int64_t ranks = shards(c.mesh, in.dims[d]), r = 0; r < ranks; ++r)
        pairs.insert(pairs.end(), {r, ranks - 1 - r});
      x = permuted(c, x, in.dims[d], pairs);
    }
    return std::vector<Val>{c.b.op("reverse", {x}, c.n.attrs)};
  };
  return ruled;
}

static std::optional<Ruled> joined_along(const RuleContext& c) {
  auto axis = static_cast<size_t>(c.n.attrs.get_int("axis"));
  Axes axes = axes_of_join(c, axis);
  const Dim& whole = c.op.results[0].shape[axis];
  if (axes.empty() || !is_static_along(c, axis) || whole.value() % shards(c.mesh, axes) != 0) return std::nullopt;
  int64_t ranks = shards(c.mesh, axes), own = whole.value() / ranks, begin = 0;
  Split split(c, axes);
  Layout out = split.result(0);
  out.dims[axis] = axes;
  std::vector<Layout> in;
  std::vector<size_t> all;
  std::vector<Window> windows;
  double bytes = 0, slice = own == 0 ? 0 : bytes_of_part(c, c.op.results[0], out) / static_cast<double>(own);
  for (size_t i = 0; i < c.n.operands.size(); ++i) {
    int64_t size = c.op.operands[i].shape[axis].value();
    all.push_back(i), in.push_back(split.operand(i)), windows.push_back({own, -begin, own});
    begin += size;
    if (!(c.layout(i).dims[axis] == axes)) continue;  // else it is brought to all, and each rank cuts what it needs
    in[i].dims[axis] = axes;
    bytes += slice * static_cast<double>(elements_sent(ranks, size / ranks, windows[i]));
  }
  in.push_back(out);
  out.pending = kept_pending(c, all, in);
  for (size_t i : all) in[i].pending = out.pending, bytes += bytes_brought(c, i, in[i]);
  Ruled ruled{{out}, bytes + bytes_returned(c, 0, out), nullptr};
  ruled.shares = true;
  for (size_t i : all)
    ruled.operands.push_back(c.op.operands[i].shape[axis].is(0) ? std::nullopt : std::optional(in[i]));
  ruled.make = [=, &c] {
    Dim first = c.rank.coordinate(axes) * own;
    auto dim = static_cast<int64_t>(axis);
    std::optional<Val> joined;
    for (size_t i : all) {
      int64_t size = c.op.operands[i].shape[axis].value(), at = -windows[i].first;
      if (size == 0) continue;
      Val x = brought(c, i, in[i]);
      x = in[i].dims[axis].empty() ? placed(x, dim, Dim(at) - first, own) : window(c, x, dim, axes, windows[i]);
      joined = joined ? ir::select(within(c.b, x.shape(), dim, first, at, at + size), x, *joined) : x;
    }
    return std::vector<Val>{
        joined ? *joined : c.b.fill(c.op.results[0].dtype, local_type(c.mesh, c.op.results[0], out).shape, 0)};
  };
  return ruled;
}

Ties same_dims(const ir::TypedOp& op) {
  Ties out;
  for (size_t d = 0; d < op.results[0].shape.size(); ++d) {
    std::vector<TensorDim> tie = {{true, 0, d}};
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i].rank() == op.results[0].rank()) tie.push_back({false, i, d});
    out.push_back(std::move(tie));
  }
  return out;
}

std::span<const OpRule> cut_rules() {
  constexpr const char* kCut =
      "elements go to the ranks in whose shards of the result they lie (permute); where the result does not divide, each rank "
      "has its elements of it and the sum is pending";
  using ir::RankRule;
  static const OpRule kRules[] = {
      {RankRule::kSlice, cut_or_pad, same_dims, kCut},
      {RankRule::kSection, cut_or_pad, same_dims, kCut},
      {RankRule::kPad, cut_or_pad, same_dims, "elements go to the ranks in whose shards of the result they lie (permute)"},
      {RankRule::kConcatenate, joined_along, same_dims, "pieces of the operands go to the ranks in whose shards they lie (permute)"},
      {RankRule::kReverse, reversed, same_dims, "parts change places (permute), and each is turned round"},
  };
  return kRules;
}

}  // namespace nabla::passes
