// Rows of a table that ranks share: looked up, and added into.
#include <algorithm>

#include "passes/shard/rules/families.h"
#include "passes/shard/rules/split.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Dim;
using ir::Ints;
using ir::Shape;
using ir::Val;

/// ids, by row of the first dimension of a table; updates and results have the ids' dimensions, then the table's
/// others.
struct Rows {
  bool clamp;
  size_t ids_rank, width;  ///< dimensions of ids, and of the table after the first
};

// Of embedding, and of gather and scatter_add where they are about rows.
std::optional<Rows> rows_of(const ir::Function& f, const ir::Node& n) {
  size_t ids = static_cast<size_t>(f.type(n.operands[1]).rank());
  size_t width = static_cast<size_t>(f.type(n.operands[0]).rank()) - 1;
  if (n.op->rank_rule == ir::RankRule::kEmbedding) return Rows{true, ids, width};
  bool gather = n.op->rank_rule == ir::RankRule::kGather;
  const ir::Attrs& a = n.attrs;
  Ints window = count_from(static_cast<int64_t>(ids), static_cast<int64_t>(width)), first = {0};
  bool fits = a.get_int("index_vector_dim") == static_cast<int64_t>(ids) &&
              a.get_ints("operand_batching_dims").empty() &&
              a.get_ints(gather ? "offset_dims" : "update_window_dims") == window &&
              a.get_ints(gather ? "collapsed_slice_dims" : "inserted_window_dims") == first &&
              a.get_ints(gather ? "start_index_map" : "scatter_dims_to_operand_dims") == first;
  // Whole rows.
  if (gather) {
    Ints sizes(width + 1, -1);
    sizes[0] = 1;
    fits = fits && a.get_ints("slice_sizes") == sizes;
  } else {
    const Shape &table = f.type(n.operands[0]).shape, &updates = f.type(n.operands[2]).shape;
    for (size_t d = 0; fits && d < width; ++d) fits = updates[ids + d] == table[d + 1];
  }
  if (!fits) return std::nullopt;
  return Rows{a.get_string("out_of_range") == "clamp", ids, width};
}

// Numbers of rows as the rank counts its own, out of range where they are others'.
Val own_rows(const RuleContext& c, const Rows& rows, Val ids, const Axes& cut) {
  const Dim& all = c.f.type(c.n.operands[0]).shape[0];
  Dim own = Dim::floordiv(all, shards(c.mesh, cut));
  ids = ir::convert(ids, DType::kI64);
  if (rows.clamp) {
    ids = c.b.op("maximum", {ids, c.b.zeros_like(ids)});
    ids = c.b.op("minimum", {ids, spread(scalar(c.b, all - 1), ids.shape())});
  }
  return ids - spread(scalar(c.b, c.rank.coordinate(cut) * own), ids.shape());
}

// Those of the axes that nothing else uses.
Axes without(const RuleContext& c, const Axes& axes, const std::vector<Axes>& used) {
  bool taken = std::any_of(used.begin(), used.end(), [&](const Axes& u) { return overlap(c.mesh, axes, u); });
  return taken ? Axes() : axes;
}

Layout joined(const std::vector<Axes>& ids, const std::vector<Axes>& width) {
  Layout out{ids, {}};
  out.dims.insert(out.dims.end(), width.begin(), width.end());
  return out;
}

}  // namespace

std::optional<Ruled> look_up_rows(const RuleContext& c) {
  std::optional<Rows> rows = rows_of(c.f, c.n);
  const Layout& table = c.layout(0);
  bool sums = c.f.type(c.n.operands[0]).dtype != DType::kBool;
  if (!rows || !sums || table.dims[0].empty() || !table.pending.empty()) return std::nullopt;
  std::vector<Axes> width(table.dims.begin() + 1, table.dims.end()), used = table.dims, batch;
  Layout wanted = c.wanted(0);
  for (size_t d = 0; d < rows->ids_rank; ++d) {
    Axes axes = wanted.dims[d].empty() ? c.layout(1).dims[d] : wanted.dims[d];
    batch.push_back(without(c, axes, used));
    used.push_back(batch.back());
  }
  Layout result = joined(batch, width);
  result.pending = table.dims[0];
  Ruled out{{result}, reshard_bytes(c.mesh, c.f.type(c.n.results[0]), result, wanted), nullptr};
  out.operands = {table, Layout{batch, {}}};
  out.make = [=] {
    Val part = c.part(0, table), ids = own_rows(c, *rows, c.part(1, {batch, {}}), table.dims[0]);
    Val last = spread(scalar(c.b, part.shape()[0] - 1), ids.shape());
    Val at = c.b.op("minimum", {c.b.op("maximum", {ids, c.b.zeros_like(ids)}), last});
    Val found = c.b.op(c.n.op->name, {part, at}, c.n.attrs);
    Val mine = ir::broadcast_in_dim(c.b.op("eq", {at, ids}), found.shape(),
                                    count_from(0, static_cast<int64_t>(rows->ids_rank)));
    return std::vector<Val>{ir::select(mine, found, no_addend_of(c.n, found))};
  };
  return out;
}

std::optional<Ruled> add_into_rows(const RuleContext& c) {
  std::optional<Rows> rows = rows_of(c.f, c.n);
  if (!rows || !c.layout(1).pending.empty() || !c.layout(2).pending.empty()) return std::nullopt;
  Layout wanted = c.wanted(0), to = wanted;
  std::vector<Axes> batch(c.layout(2).dims.begin(),
                          c.layout(2).dims.begin() + static_cast<std::ptrdiff_t>(rows->ids_rank));
  Axes all;
  for (const Axes& axes : batch) all.insert(all.end(), axes.begin(), axes.end());
  for (Axes& axes : to.dims) axes = without(c, axes, batch);  // a sum that is then brought to its shards
  std::vector<Axes> width(to.dims.begin() + 1, to.dims.end());
  if (all.empty() && to.dims[0].empty()) return std::nullopt;
  Layout result = to, updates = joined(batch, width);
  result.pending = all;
  const Layout& from = c.layout(0);
  bool zero = is_zero(c, 0), kept = !zero && !all.empty() && from.pending == all;
  Ruled out{{result}, reshard_bytes(c.mesh, c.f.type(c.n.results[0]), result, wanted), nullptr};
  out.bytes += reshard_bytes(c.mesh, c.f.type(c.n.operands[2]), c.layout(2), updates);
  if (!kept && !zero) out.bytes += reshard_bytes(c.mesh, c.f.type(c.n.operands[0]), from, to);
  const ir::Type& table = c.f.type(c.n.operands[0]);
  Layout onto = to;
  if (kept) onto.pending = all;
  out.operands = {zero ? std::nullopt : std::optional(onto), Layout{batch, {}}, updates}, out.shares = !all.empty();
  out.make = [=, &table] {
    auto share = [&](Val v) { return all.empty() ? v : c.share(v); };
    Val added = share(c.part(2, updates)), into;
    if (zero)
      into = c.b.fill(added.dtype(), local_type(c.mesh, table, to).shape, 0);
    else
      into = share(kept ? reshard(c.mesh, c.rank, {c.value(0), {from.dims, {}}}, to) : c.part(0, to));
    if (!kept && !zero && !all.empty()) {
      into = on_first_of(into, c.rank, all);
    }
    Val ids = c.part(1, {batch, {}});
    ir::Attrs attrs = c.n.attrs;
    if (!to.dims[0].empty()) {
      ids = own_rows(c, *rows, ids, to.dims[0]);
      attrs.set("out_of_range", std::string("drop"));
    }
    return std::vector<Val>{c.b.op("scatter_add", {into, ids, added}, attrs)};
  };
  return out;
}

std::optional<ir::Factors> factors_by_rows(const ir::Function& f, const ir::Node& n) {
  using Kind = ir::Factors::Kind;
  bool adds = n.op->rank_rule == ir::RankRule::kScatterAdd;
  if (!adds && n.op->rank_rule != ir::RankRule::kEmbedding && n.op->rank_rule != ir::RankRule::kGather) return std::nullopt;
  const ir::Type& table = f.type(n.operands[0]);
  std::optional<Rows> rows = table.rank() > 0 ? rows_of(f, n) : std::nullopt;
  if (!rows || !is_float(table.dtype)) return std::nullopt;
  ir::Factors out;
  auto add = [&](const Dim& size, bool summed) {
    return out.add(fmt::format("f{}", out.factors.size()), size, summed ? Kind::kReduce : Kind::kPass,
                   summed ? kernel_ir::Combiner::kSum : kernel_ir::Combiner::kNone);
  };
  ir::Factors::Tensor whole{{add(table.shape[0], !adds)}}, ids, moved;
  for (const Dim& d : f.type(n.operands[1]).shape) ids.push_back({add(d, adds)});
  moved = ids;
  for (size_t d = 1; d < table.shape.size(); ++d) whole.push_back({add(table.shape[d], false)}), moved.push_back(whole.back());
  out.operands = {whole, ids};
  if (adds) out.operands.push_back(moved);
  out.results = {adds ? whole : moved};
  return out;
}

Val no_addend(Val like) { return like.b->like(like, -0.0); }
Val no_addend_of(const ir::Node& lookup, Val found) {
  const ir::Attr* outside = lookup.attrs.find("out_of_range");
  bool zero = outside != nullptr && *outside == ir::Attr(std::string("zero"));
  return zero ? found.b->zeros_like(found) : no_addend(found);
}

Val on_first_of(Val value, const RankSymbols& rank, const Axes& axes) {
  ir::FunctionBuilder& b = *value.b;
  Val first = b.op("eq", {scalar(b, rank.coordinate(axes)), scalar(b, 0)});
  return ir::select(spread(first, value.shape()), value, no_addend(value));
}

std::span<const OpRule> rows_rules() {
  constexpr const char* kRows =
      "rows of a table: the rank that has a row looks it up, and the sum is pending";
  using ir::RankRule;
  static const OpRule kRules[] = {
      {RankRule::kEmbedding, look_up_rows, nullptr, kRows},
  };
  return kRules;
}

}  // namespace nabla::passes
