#include "passes/shard/merge_cuts.h"

#include <algorithm>
#include <optional>
#include <set>

#include "passes/rewrite.h"
#include "passes/shard/layout.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Ints;
using ir::Node;
using ir::Val;
using ir::ValueId;

/// x[start : limit] along each dimension, without strides.
struct Range {
  ValueId x;
  Ints starts, limits;
};

/// What makes the values of a function, and how they lie.
struct Makers {
  const Function& f;
  const Function& laid_out;
  std::vector<int> producers;

  std::optional<Range> range(ValueId id) const {
    if (producers[id] < 0) return std::nullopt;
    const Node& n = f.nodes[producers[id]];
    if (n.op->form != ir::OpForm::kSlice || !f.type(n.operands[0]).is_static()) return std::nullopt;
    Range out{n.operands[0], n.attrs.get_ints("starts"), n.attrs.get_ints("limits")};
    const ir::Shape& shape = f.type(out.x).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (n.attrs.get_ints("strides")[d] != 1) return std::nullopt;
      if (out.limits[d] == -1) out.limits[d] = shape[d].value();
    }
    return out;
  }
  bool lies_along(ValueId id, size_t dim) const {
    const ir::ShardingRef& s = laid_out.values[id].sharding;
    return s && !s->dims[dim].axes.empty();
  }
  int64_t size(ValueId id, size_t dim) const { return f.type(id).shape[dim].value(); }
  bool is_whole(const Range& r, size_t dim) const { return r.starts[dim] == 0 && r.limits[dim] == size(r.x, dim); }
};

/// pad(x) that is the pad of a slice of x.
struct Pad {
  ValueId x;
  Ints low, high;
};
std::optional<Pad> pad_of_slice(const Makers& m, const Node& n) {
  if (n.op->form != ir::OpForm::kPad) return std::nullopt;
  std::optional<Range> r = m.range(n.operands[0]);
  if (!r) return std::nullopt;
  Pad out{r->x, n.attrs.get_ints("low"), n.attrs.get_ints("high")};
  bool shared = false;
  for (size_t d = 0; d < out.low.size(); ++d) {
    int64_t after = m.size(r->x, d) - r->limits[d];
    if (n.attrs.get_ints("interior")[d] != 0) return std::nullopt;
    if (m.is_whole(*r, d)) continue;
    // Elements that the slice drops must not come back where the padding stands.
    bool keeps = (r->starts[d] == 0 || out.low[d] <= 0) && (after == 0 || out.high[d] <= 0);
    if (!keeps) return std::nullopt;
    shared |= m.lies_along(r->x, d);
    out.low[d] -= r->starts[d], out.high[d] -= after;
  }
  if (!shared) return std::nullopt;
  return out;
}

/// The last `by` elements of x along the axis, and then the others.
struct Roll {
  ValueId x;
  size_t axis;
  int64_t by;
};
std::optional<Roll> roll_of(const Makers& m, const Node& n) {
  if (n.op->form != ir::OpForm::kConcatenate || n.operands.size() != 2) return std::nullopt;
  auto axis = static_cast<size_t>(n.attrs.get_int("axis"));
  std::optional<Range> end = m.range(n.operands[0]), begin = m.range(n.operands[1]);
  if (!end || !begin || end->x != begin->x || !m.lies_along(end->x, axis)) return std::nullopt;
  int64_t size = m.size(end->x, axis);
  for (size_t d = 0; d < end->starts.size(); ++d)
    if (d != axis && (!m.is_whole(*end, d) || !m.is_whole(*begin, d))) return std::nullopt;
  if (end->limits[axis] != size || begin->starts[axis] != 0 || begin->limits[axis] != end->starts[axis])
    return std::nullopt;
  return Roll{end->x, axis, size - end->starts[axis]};
}

Val padded(Val x, Val value, const Ints& low, const Ints& high) {
  return x.b->op("pad", {x, value}, {{"low", low}, {"high", high}, {"interior", Ints(low.size(), 0)}});
}

Val rolled(Val x, size_t axis, int64_t by) {
  ir::FunctionBuilder& b = *x.b;
  int64_t size = x.shape()[axis].value();
  Val zero = b.constant(Literal::scalar(x.dtype(), 0));
  Ints low(static_cast<size_t>(x.rank()), 0), high = low;
  low[axis] = by, high[axis] = -by;
  Val others = padded(x, zero, low, high);
  low[axis] = by - size, high[axis] = size - by;
  Val last = padded(x, zero, low, high);
  Val at = b.op("iota", {}, {{"shape", x.shape()}, {"axis", static_cast<int64_t>(axis)}, {"dtype", DType::kI64}});
  return ir::select(b.op("lt", {at, b.like(at, static_cast<double>(by))}), last, others);
}

}  // namespace

std::shared_ptr<const ir::Module> merge_cuts(const ir::Module& flat, const ir::Module& sharded, PassContext& context) {
  auto out = std::make_shared<ir::Module>(flat);
  bool any = false;
  for (size_t i = 0; i < flat.functions.size(); ++i) {
    const Function& f = *flat.functions[i];
    auto cuts = [](const Node& n) { return n.op->form == ir::OpForm::kPad || n.op->form == ir::OpForm::kConcatenate; };
    if (std::none_of(f.nodes.begin(), f.nodes.end(), cuts)) continue;
    Makers makers{f, *sharded.functions[i], ir::producers(f)};
    FunctionCopy copy(f, context.ops, &flat);
    bool merged = false;
    for (const Node& n : f.nodes) {
      std::optional<Pad> pad = pad_of_slice(makers, n);
      std::optional<Roll> roll = roll_of(makers, n);
      copy.builder().set_location(n.location);
      if (pad)
        copy.set(n.results, {padded(copy.at(pad->x), copy.at(n.operands[1]), pad->low, pad->high)});
      else if (roll)
        copy.set(n.results, {rolled(copy.at(roll->x), roll->axis, roll->by)});
      else
        copy.copy(n);
      merged |= pad || roll;
    }
    if (merged) out->functions[i] = without_dead_nodes(copy.finish(), flat, context.ops);
    any |= merged;
  }
  return any ? out : nullptr;
}

}  // namespace nabla::passes
