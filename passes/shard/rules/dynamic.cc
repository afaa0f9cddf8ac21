// Windows at computed places along a dimension that ranks share: each rank reads and writes what it has of them.
#include <algorithm>

#include "passes/shard/rules/families.h"
#include "passes/shard/rules/halo.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Ints;
using ir::Val;

/// A dimension that is cut and that the window does not fill.
struct SlicedDim {
  size_t dim;
  Axes axes;
  int64_t whole, own, window;
};

/// Of x, which lies as operand 0; nothing where there are none or sizes are not known.
std::optional<std::vector<SlicedDim>> along(const RuleContext& c, const ir::Type& window) {
  std::vector<SlicedDim> out;
  const ir::Type& x = c.op.operands[0];
  for (size_t d = 0; d < x.shape.size(); ++d) {
    const Axes& axes = c.layout(0).dims[d];
    if (axes.empty() || can_split(c.factors.factors[c.factors.operands[0][d][0]])) continue;
    if (!x.shape[d].is_static() || !window.shape[d].is_static() || window.shape[d].is(0)) return std::nullopt;
    int64_t whole = x.shape[d].value();
    out.push_back({d, axes, whole, whole / shards(c.mesh, axes), window.shape[d].value()});
  }
  if (out.empty()) return std::nullopt;
  return out;
}
Axes taken_by(const std::vector<SlicedDim>& dims) {
  Axes out;
  for (const SlicedDim& a : dims) out.insert(out.end(), a.axes.begin(), a.axes.end());
  return out;
}

Val limited(Val v, int64_t low, int64_t high) {
  Val least = v.b->like(v, static_cast<double>(low)), most = v.b->like(v, static_cast<double>(high));
  return v.b->op("minimum", {v.b->op("maximum", {v, least}), most});
}
/// Where the window begins, as the rank counts its part: i64[].
Val own_start(const RuleContext& c, const SlicedDim& a, Val start) {
  Val in_whole = limited(ir::convert(start, DType::kI64), 0, a.whole - a.window);
  return in_whole - scalar(c.b, c.rank.coordinate(a.axes) * a.own);
}
std::vector<Val> starts_of(const RuleContext& c, size_t first) {
  std::vector<Val> out;
  for (size_t i = first; i < c.n.operands.size(); ++i) out.push_back(c.part(i, {}));
  return out;
}

/// x with zeros of the window's extent around it along the dimension.
Val surrounded(Val x, const SlicedDim& a) {
  Ints both(static_cast<size_t>(x.rank()), 0), none = both;
  both[a.dim] = a.window;
  Val zero = x.b->constant(Literal::scalar(x.dtype(), -0.0));  // no_addend, where the result is part of a sum
  return x.b->op("pad", {x, zero}, {{"low", both}, {"high", both}, {"interior", none}});
}

Val sliced(const RuleContext& c, Val x, std::vector<Val> starts, const ir::Shape& window) {
  starts.insert(starts.begin(), x);
  Ints sizes;
  bool fixed = true;
  for (const ir::Dim& d : window) fixed = fixed && d.is_static(), sizes.push_back(d.is_static() ? d.value() : -1);
  if (fixed) return c.b.op("dynamic_slice", starts, {{"sizes", sizes}});
  return c.b.op("dynamic_slice", starts, {{"sizes", Ints(window.size(), -1)}, {"window", window}});
}

}  // namespace

// Zeros where the window lies in other parts: the sum over ranks is the window.
static std::optional<Ruled> sliced_where_it_is(const RuleContext& c) {
  auto dims = along(c, c.op.results[0]);
  if (!dims || c.op.operands[0].dtype == DType::kBool) return std::nullopt;
  Split split(c, taken_by(*dims));
  Layout in = split.operand(0), out = split.result(0);
  for (const SlicedDim& a : *dims) {
    in.dims[a.dim] = a.axes, out.dims[a.dim].clear();
    out.pending.insert(out.pending.end(), a.axes.begin(), a.axes.end());
  }
  Ruled ruled{{out}, bytes_brought(c, 0, in) + bytes_returned(c, 0, out), nullptr};
  ruled.operands.assign(c.n.operands.size(), Layout());  // of the starts, which are scalars
  ruled.operands[0] = in;
  ruled.make = [=, dims = *dims, &c] {
    Val x = c.part(0, in);
    std::vector<Val> starts = starts_of(c, 1);
    for (const SlicedDim& a : dims) {
      Val start = own_start(c, a, starts[a.dim]);
      starts[a.dim] = limited(start + c.b.fill(DType::kI64, {}, static_cast<double>(a.window)), 0, a.own + a.window);
      x = surrounded(x, a);
    }
    return std::vector<Val>{sliced(c, x, starts, local_type(c.mesh, c.op.results[0], out).shape)};
  };
  return ruled;
}

// Elements that the rank has get what the update says, in a window that lies within its part: nothing else is written.
static std::optional<Ruled> updated_where_it_is(const RuleContext& c) {
  auto dims = along(c, c.op.operands[1]);
  if (!dims) return std::nullopt;
  for (const SlicedDim& a : *dims)
    if (a.window > a.own) return std::nullopt;
  Split split(c, taken_by(*dims));
  Layout in = split.operand(0), update = split.operand(1);
  for (const SlicedDim& a : *dims) in.dims[a.dim] = a.axes, update.dims[a.dim].clear();
  Ruled ruled{{in}, bytes_brought(c, 0, in) + bytes_brought(c, 1, update) + bytes_returned(c, 0, in), nullptr};
  ruled.operands.assign(c.n.operands.size(), Layout());  // of the starts, which are scalars
  ruled.operands[0] = in, ruled.operands[1] = update;
  ruled.make = [=, dims = *dims, &c] {
    Val x = c.part(0, in), fresh = c.part(1, update);
    const ir::Shape shape = fresh.shape();
    std::vector<Val> starts = starts_of(c, 2), zeros;
    Val mine = c.b.fill(DType::kBool, shape, 1);
    for (const Val& s : starts) zeros.push_back(c.b.zeros_like(s));
    for (const SlicedDim& a : dims) {
      Val start = own_start(c, a, starts[a.dim]);
      starts[a.dim] = limited(start, 0, a.own - a.window);
      // Element j of the window that lies within is element j + ahead of the update.
      Val ahead = starts[a.dim] - start;
      std::vector<Val> moved = zeros;
      moved[a.dim] = limited(ahead + c.b.fill(DType::kI64, {}, static_cast<double>(a.window)), 0, 2 * a.window);
      fresh = sliced(c, surrounded(fresh, a), moved, shape);
      auto dim = static_cast<int64_t>(a.dim);
      Val at = positions_along(c.b, shape, dim, 0) + spread(ahead, shape);
      Val inside = c.b.op("and", {c.b.op("ge", {at, c.b.zeros_like(at)}),
                                  c.b.op("lt", {at, c.b.like(at, static_cast<double>(a.window))})});
      mine = c.b.op("and", {mine, inside});
    }
    std::vector<Val> operands = {x, ir::select(mine, fresh, sliced(c, x, starts, shape))};
    operands.insert(operands.end(), starts.begin(), starts.end());
    return std::vector<Val>{c.b.op("dynamic_update_slice", operands)};
  };
  return ruled;
}

Ties operand_and_result(const ir::TypedOp& op) {
  Ties out;
  for (size_t d = 0; d < op.results[0].shape.size(); ++d) out.push_back({{false, 0, d}, {true, 0, d}});
  return out;
}

std::span<const OpRule> dynamic_rules() {
  using ir::RankRule;
  static const OpRule kRules[] = {
      {RankRule::kDynamicSlice, sliced_where_it_is, nullptr, "each rank has its elements of the window, and the sum is pending"},
      {RankRule::kDynamicUpdate, updated_where_it_is, operand_and_result, "each rank writes what lies in its part"},
  };
  return kRules;
}

}  // namespace nabla::passes
