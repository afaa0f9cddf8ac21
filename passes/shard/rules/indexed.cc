// gather and scatter by one index per window, along a dimension that ranks share: each rank reads and writes what it
// has.
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

bool contains(const Ints& list, int64_t v) { return std::find(list.begin(), list.end(), v) != list.end(); }

/// The only dimension of operand 0 that is indexed, one element at a time; nothing where there is none such.
std::optional<size_t> indexed_dim(const RuleContext& c, const char* map, const char* collapsed) {
  const Ints& indexed = c.n.attrs.get_ints(map);
  bool one = indexed.size() == 1 && c.n.attrs.get_int("index_vector_dim") == c.op.operands[1].rank();
  if (!one || !contains(c.n.attrs.get_ints(collapsed), indexed[0])) return std::nullopt;
  if (!c.op.operands[0].shape[indexed[0]].is_static() || c.op.operands[0].shape[indexed[0]].is(0)) return std::nullopt;
  return static_cast<size_t>(indexed[0]);
}

/// Indices as the rank counts its part, outside of it where they are others'.
Val own_indices(const RuleContext& c, Val indices, size_t dim, const Axes& axes) {
  int64_t whole = c.op.operands[0].shape[dim].value(), own = whole / shards(c.mesh, axes);
  Val at = ir::convert(indices, DType::kI64);
  if (c.n.attrs.get_string("out_of_range") == "clamp")
    at = c.b.op("minimum", {c.b.op("maximum", {at, c.b.zeros_like(at)}), c.b.like(at, static_cast<double>(whole - 1))});
  return at - spread(scalar(c.b, c.rank.coordinate(axes) * own), at.shape());
}

/// The dimensions of the windows' tensor that are those of the indices, in order.
Ints batch_dims(int rank, const Ints& window_dims) {
  Ints out;
  for (int64_t d = 0; d < rank; ++d)
    if (!contains(window_dims, d)) out.push_back(d);
  return out;
}

std::optional<Ruled> cheaper(std::optional<Ruled> a, std::optional<Ruled> b) {
  if (!a || !b) return a ? a : b;
  return b->bytes < a->bytes ? b : a;
}

/// Into the part that a rank has; every rank has all updates.
std::optional<Ruled> into_own(const RuleContext& c, size_t dim) {
  Axes axes = c.wanted(0).dims[dim].empty() ? c.layout(0).dims[dim] : c.wanted(0).dims[dim];
  if (axes.empty()) return std::nullopt;
  Split split(c, axes);
  Layout in = split.operand(0), out = split.result(0), indices = split.operand(1), updates = split.operand(2);
  in.dims[dim] = out.dims[dim] = axes;
  double bytes = bytes_brought(c, 1, indices) + bytes_brought(c, 2, updates) + bytes_returned(c, 0, out);
  Ruled ruled{{out}, bytes + bytes_brought(c, 0, in), nullptr};
  ruled.operands = {in, indices, updates};
  ruled.make = [=, attrs = split.attrs(), &c] {
    ir::Attrs own = attrs;
    own.set("out_of_range", std::string("drop"));
    Val at = own_indices(c, c.part(1, indices), dim, axes);
    return std::vector<Val>{c.b.op(c.n.op->name, {c.part(0, in), at, c.part(2, updates)}, own)};
  };
  return ruled;
}

/// The updates that a rank has, into all; the sum over ranks is pending. Of scatter_add alone.
std::optional<Ruled> of_own(const RuleContext& c, size_t dim) {
  const ir::Attrs& a = c.n.attrs;
  Ints dims = batch_dims(c.op.operands[2].rank(), a.get_ints("update_window_dims"));
  const Layout &from = c.layout(2), &onto = c.layout(0);
  Axes all;
  std::vector<size_t> cut;  // dimensions of the indices
  for (size_t e = 0; e < dims.size(); ++e) {
    const Axes& axes = from.dims[dims[e]];
    if (axes.empty() || contains(a.get_ints("scatter_indices_batching_dims"), static_cast<int64_t>(e))) continue;
    cut.push_back(e), all.insert(all.end(), axes.begin(), axes.end());
  }
  if (cut.empty()) return std::nullopt;
  Split split(c, all);
  Layout in = split.operand(0), out = split.result(0), indices = split.operand(1), updates = split.operand(2);
  in.dims[dim].clear(), out.dims[dim].clear();
  for (size_t e : cut) indices.dims[e] = updates.dims[dims[e]] = from.dims[dims[e]];
  out.pending = all;
  bool kept = onto.pending == all, parts = onto.dims[dim] == all;  // a sum, or parts of which the whole is the sum
  double bytes = bytes_brought(c, 1, indices) + bytes_brought(c, 2, updates) + bytes_returned(c, 0, out);
  if (kept) in.pending = all;
  if (parts) in.dims[dim] = all;
  Ruled ruled{{out}, bytes + bytes_brought(c, 0, in), nullptr};
  ruled.operands = {in, indices, updates}, ruled.shares = true;
  ruled.make = [=, attrs = split.attrs(), &c] {
    Val into = c.share(brought(c, 0, in));
    if (parts)
      into = placed(into, static_cast<int64_t>(dim), c.rank.coordinate(all) * into.shape()[dim],
                    c.op.operands[0].shape[dim].value());
    else if (!kept)
      into = on_first_of(into, c.rank, all);
    return std::vector<Val>{c.b.op(c.n.op->name, {into, c.part(1, indices), c.share(c.part(2, updates))}, attrs)};
  };
  return ruled;
}

}  // namespace

static std::optional<Ruled> gathered_by_index(const RuleContext& c) {
  if (std::optional<Ruled> rows = look_up_rows(c)) return rows;
  std::optional<size_t> dim = indexed_dim(c, "start_index_map", "collapsed_slice_dims");
  if (!dim || c.op.operands[0].dtype == DType::kBool) return std::nullopt;
  const Axes& axes = c.layout(0).dims[*dim];
  if (axes.empty()) return std::nullopt;
  Split split(c, axes);
  Layout in = split.operand(0), indices = split.operand(1), out = split.result(0);
  in.dims[*dim] = axes;
  out.pending = axes;
  Ruled ruled{{out}, bytes_brought(c, 0, in) + bytes_brought(c, 1, indices) + bytes_returned(c, 0, out), nullptr};
  ruled.operands = {in, indices};
  ruled.make = [=, dim = *dim, attrs = split.attrs(), &c] {
    Val x = c.part(0, in), own = own_indices(c, c.part(1, indices), dim, axes);
    Val last = c.b.like(own, static_cast<double>(x.shape()[dim].value() - 1));
    Val at = c.b.op("minimum", {c.b.op("maximum", {own, c.b.zeros_like(own)}), last});
    Val found = c.b.op("gather", {x, at}, attrs);
    Val mine = ir::broadcast_in_dim(c.b.op("eq", {at, own}), found.shape(),
                                    batch_dims(found.rank(), c.n.attrs.get_ints("offset_dims")));
    return std::vector<Val>{ir::select(mine, found, no_addend_of(c.n, found))};
  };
  return ruled;
}

static std::optional<Ruled> scattered_by_index(const RuleContext& c) {
  bool adds = c.n.op->rank_rule == ir::RankRule::kScatterAdd;
  std::optional<Ruled> rows = adds ? add_into_rows(c) : std::nullopt;
  std::optional<size_t> dim = indexed_dim(c, "scatter_dims_to_operand_dims", "inserted_window_dims");
  if (rows || !dim) return rows;
  return cheaper(into_own(c, *dim), adds ? of_own(c, *dim) : std::nullopt);
}

std::span<const OpRule> indexed_rules() {
  constexpr const char* kAdd =
      "by rows, or one index per window: each rank adds the updates that it has into what it has; over updates that are cut the "
      "sum is pending";
  constexpr const char* kInto =
      "one index per window: each rank writes what lies in its part";
  constexpr const char* kIndexed =
      "by rows, or one index per window: the rank that has an element reads it, and the sum is pending";
  using ir::RankRule;
  static const OpRule kRules[] = {
      {RankRule::kGather, gathered_by_index, nullptr, kIndexed},
      {RankRule::kScatterAdd, scattered_by_index, operand_and_result, kAdd},
      {RankRule::kScatterInto, scattered_by_index, operand_and_result, kInto},
  };
  return kRules;
}

}  // namespace nabla::passes
