// Attention whose keys and values ranks share. Where queries lie along the same axes, keys and values travel round the
// ring of the ranks, and what each part of them gives is combined by its logsumexp (Liu et al., "Ring Attention with
// Blockwise Transformers", 2023). Where they do not, each rank attends to the keys that it has, and ranks combine.
#include <algorithm>
#include <limits>

#include "ir/cost/exchange.h"
#include "passes/shard/rules/families.h"
#include "passes/shard/rules/halo.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Dim;
using ir::Ints;
using ir::Val;
using kernel_ir::Combiner;

constexpr size_t kQ = 0, kK = 1, kV = 2, kPositions = 2;  // operands; the dimension of queries or keys

/// How the node lies.
struct Keys {
  Axes axes;  ///< of the keys
  bool ring;  ///< queries lie along them too
  int64_t ranks;
  Dim own;  ///< keys of a rank
};
std::optional<Keys> keys_of(const RuleContext& c) {
  Axes axes = c.layout(kK).dims[kPositions];
  if (axes.empty()) axes = c.layout(kV).dims[kPositions];
  if (axes.empty()) return std::nullopt;
  const Layout& q = c.layout(kQ);
  bool ring = q.dims[kPositions] == axes;
  auto uses = [&](const Axes& a) { return overlap(c.mesh, a, axes); };
  if (!ring && std::any_of(q.dims.begin(), q.dims.end(), uses)) return std::nullopt;
  int64_t ranks = shards(c.mesh, axes);
  // In a ring every rank takes its own keys of the mask.
  const Dim& keys = c.op.operands[kK].shape[kPositions];
  bool masked = std::any_of(c.op.operands.begin(), c.op.operands.end(),
                            [](const ir::Type& t) { return t.dtype == DType::kBool; });
  if (ring && masked && !keys.is_static()) return std::nullopt;
  return Keys{axes, ring, ranks, Dim::floordiv(keys, ranks)};
}

Split split_by(const RuleContext& c, const Keys& keys) {
  Split out(c, keys.axes);
  const auto& operands = c.factors.operands;
  if (keys.ring)
    out.along(operands[kQ], kPositions, keys.axes);
  else
    out.along(operands[kK], kPositions, keys.axes);
  return out;
}

/// Layouts of the operands: in a ring, keys and values have factors of their own.
std::vector<Layout> layouts_of(const RuleContext& c, const Keys& keys, const Split& split) {
  std::vector<Layout> out;
  for (size_t i = 0; i < c.n.operands.size(); ++i) out.push_back(split.operand(i));
  for (size_t i : {kK, kV}) out[i].dims[kPositions] = keys.axes;
  return out;
}
double bytes_brought(const RuleContext& c, const std::vector<Layout>& layouts) {
  double out = 0;
  for (size_t i = 0; i < layouts.size(); ++i) out += bytes_brought(c, i, layouts[i]);
  return out;
}

std::vector<Val> parts(const RuleContext& c, const std::vector<Layout>& layouts) {
  std::vector<Val> out;
  for (size_t i = 0; i < layouts.size(); ++i) out.push_back(c.part(i, layouts[i]));
  return out;
}

/// To the next rank, round the ring: what is there belongs to the rank after.
Val passed_on(const RuleContext& c, Val v, const Keys& keys) {
  Ints pairs;
  for (int64_t r = 0; r < keys.ranks; ++r) pairs.insert(pairs.end(), {r, (r + keys.ranks - 1) % keys.ranks});
  return permuted(c, v, keys.axes, pairs);
}

/// The node with the keys of one block: those of the rank that has coordinate `block`.
std::vector<Val> with_block(const RuleContext& c, const Keys& keys, std::vector<Val> operands, Val k, Val v,
                            ir::Attrs attrs, const Dim& block, int mask) {
  operands[kK] = k, operands[kV] = v;
  if (mask >= 0) operands[mask] = section(operands[mask], 3, block * keys.own, keys.own);
  ir::Shape offset = attrs.get_shape("offset");
  if (!offset.empty()) offset[3] = offset[3] + block * keys.own, attrs.set("offset", offset);
  return k.b->add(c.n.op->name, operands, attrs);
}
int mask_of(const RuleContext& c, size_t first_extra) {
  bool is_mask = c.op.operands.size() > first_extra && c.op.operands[first_extra].dtype == DType::kBool;
  return is_mask ? static_cast<int>(first_extra) : -1;
}

Val along_features(Val rows, const ir::Shape& shape) { return ir::broadcast_along(rows, shape, {3}); }
Val apply(const char* op, Val a) { return a.b->op(op, {a}); }
Val equals(Val v, double number) { return v.b->op("eq", {v, v.b->like(v, number)}); }
constexpr double kInf = std::numeric_limits<double>::infinity();

/// Of rows that see no key: 0 instead of -infinity.
Val finite(Val v) { return ir::select(equals(v, -kInf), v.b->zeros_like(v), v); }

/// A result of attention, wide, with its logsumexp.
struct Attended {
  Val out, logsumexp;
};
// Both over all keys of the two.
Attended combined(const Attended& x, const Attended& y) {
  ir::FunctionBuilder& b = *x.out.b;
  Val top = finite(b.op("maximum", {x.logsumexp, y.logsumexp}));
  Val wx = apply("exp", x.logsumexp - top), wy = apply("exp", y.logsumexp - top), sum = wx + wy;
  Val empty = equals(sum, 0), divisor = ir::select(empty, b.like(sum, 1), sum);
  const ir::Shape& shape = x.out.shape();
  Val out = x.out * along_features(wx / divisor, shape) + y.out * along_features(wy / divisor, shape);
  return {out, ir::select(empty, b.like(sum, -kInf), top + apply("log", divisor))};
}

Attended attended(const std::vector<Val>& results) { return {ir::convert(results[0], results[1].dtype()), results[1]}; }

/// Whether a causal mask hides blocks as wholes: those of the ranks after a rank's own.
bool hides_blocks(const RuleContext& c) {
  const ir::Shape &q = c.op.operands[kQ].shape, &k = c.op.operands[kK].shape;
  return c.n.attrs.get_bool("causal") && c.n.attrs.get_shape("offset").empty() && q[kPositions] == k[kPositions];
}

using Values = std::vector<Val>;
/// `sums` with what a block adds, which is so far round the ring from the rank's own; only they where the block is
/// hidden from the rank. Ranks exchange nothing in the branch.
Values added_unless_hidden(const RuleContext& c, const Keys& keys, int64_t distance, Values operands, const Values& sums,
                           const std::function<Values(const Values& operands, const Values& sums)>& add) {
  if (!hides_blocks(c) || distance % keys.ranks == 0) return add(operands, sums);
  auto function = [&](bool visible) {
    ir::FunctionBuilder b("", c.b.ops(), c.b.module());
    b.set_location(c.n.location);
    auto params = [&](const Values& like) {
      Values out;
      for (const Val& v : like) out.push_back(b.param("", v.type()));
      return out;
    };
    Values in = params(operands), so_far = params(sums);
    return c.define(b.finish(visible ? add(in, so_far) : so_far));
  };
  Val rank = scalar(c.b, c.rank.coordinate(keys.axes));
  Val visible = c.b.op("ge", {rank, c.b.like(rank, static_cast<double>(keys.ranks - distance))});
  ir::FunctionRef added = function(true), skipped = function(false);
  operands.insert(operands.begin(), visible);
  operands.insert(operands.end(), sums.begin(), sums.end());
  return c.b.add("cond", operands, {{"then", added}, {"else", skipped}});
}

std::vector<Val> forward_ring(const RuleContext& c, const Keys& keys, const std::vector<Val>& operands,
                              const ir::Attrs& attrs) {
  Dim rank = c.rank.coordinate(keys.axes);
  auto block = [&](const Values& in, int64_t step) {
    return attended(with_block(c, keys, in, in[kK], in[kV], attrs, Dim::mod(rank + step, keys.ranks), mask_of(c, 3)));
  };
  Values in = operands;
  Attended all = block(in, 0);
  for (int64_t step = 1; step < keys.ranks; ++step) {
    for (size_t i : {kK, kV}) in[i] = passed_on(c, in[i], keys);
    Values sums = added_unless_hidden(c, keys, step, in, {all.out, all.logsumexp}, [&](const Values& own, const Values& so_far) {
      Attended both = combined({so_far[0], so_far[1]}, block(own, step));
      return Values{both.out, both.logsumexp};
    });
    all = {sums[0], sums[1]};
  }
  return {ir::convert(all.out, c.op.results[0].dtype), all.logsumexp};
}

// Weights of ranks follow from the largest logsumexp, and the sum of what they weigh is left pending.
std::vector<Val> forward_apart(const RuleContext& c, const Keys& keys, const std::vector<Val>& operands,
                               const ir::Attrs& attrs) {
  Attended own = attended(c.b.add(c.n.op->name, operands, attrs));
  Val top = finite(all_reduce(c.mesh, own.logsumexp, keys.axes, Combiner::kMax));
  Val weight = apply("exp", own.logsumexp - top), sum = all_reduce(c.mesh, weight, keys.axes, Combiner::kSum);
  Val empty = equals(sum, 0), divisor = ir::select(empty, c.b.like(sum, 1), sum);
  Val out = own.out * along_features(weight / divisor, own.out.shape());
  Val logsumexp = ir::select(empty, c.b.like(sum, -kInf), top + apply("log", divisor));
  return {ir::convert(out, c.op.results[0].dtype), logsumexp};
}

// The gradients of a block are added up on their way from the rank after its own round the ring, and end with its own.
std::vector<Val> backward_ring(const RuleContext& c, const Keys& keys, const std::vector<Val>& operands,
                               const ir::Attrs& attrs) {
  DType wide = c.op.operands[3].dtype;
  Dim rank = c.rank.coordinate(keys.axes);
  Values in = operands, sums;
  for (size_t i = 0; hides_blocks(c) && i < 3; ++i)
    sums.push_back(c.b.fill(i == kQ ? wide : operands[i].dtype(), operands[i].shape(), 0));
  for (int64_t distance = 1; distance <= keys.ranks; ++distance) {
    for (size_t i : {kK, kV}) in[i] = distance == keys.ranks ? operands[i] : passed_on(c, in[i], keys);
    for (size_t i : {kK, kV})
      if (distance > 1) sums[i] = passed_on(c, sums[i], keys);
    sums = added_unless_hidden(c, keys, distance, in, sums, [&](const Values& own, const Values& so_far) {
      Values out = with_block(c, keys, own, own[kK], own[kV], attrs, Dim::mod(rank + distance, keys.ranks), mask_of(c, 6));
      for (size_t i : {kQ, kK, kV}) {
        DType to = i == kQ ? wide : out[i].dtype();
        if (!so_far.empty()) out[i] = ir::convert(so_far[i], wide) + ir::convert(out[i], wide);
        out[i] = ir::convert(out[i], to);
      }
      return out;
    });
  }
  sums[kQ] = ir::convert(sums[kQ], c.op.results[0].dtype);
  return sums;
}

}  // namespace

std::optional<Ruled> attended_by_ranks(const RuleContext& c) {
  std::optional<Keys> keys = keys_of(c);
  if (!keys) return std::nullopt;
  Split split = split_by(c, *keys);
  if (!split.fits()) return std::nullopt;
  std::vector<Layout> in = layouts_of(c, *keys, split);
  Layout out = split.result(0), rows = split.result(1);
  double bytes = bytes_brought(c, in), row_bytes = bytes_of_part(c, c.op.results[1], rows);
  if (keys->ring)
    for (size_t i : {kK, kV}) bytes += static_cast<double>(keys->ranks - 1) * bytes_of_part(c, c.op.operands[i], in[i]);
  else
    out.pending = keys->axes, bytes += 2 * ir::sent_bytes("all_reduce", keys->ranks, row_bytes);
  bytes += bytes_returned(c, 0, out) + bytes_returned(c, 1, rows);
  Ruled ruled{{out, rows}, bytes, nullptr};
  ruled.make = [=, keys = *keys, attrs = split.attrs(), &c] {
    std::vector<Val> operands = parts(c, in);
    return keys.ring ? forward_ring(c, keys, operands, attrs) : forward_apart(c, keys, operands, attrs);
  };
  return ruled;
}

std::optional<Ruled> attention_back(const RuleContext& c) {
  std::optional<Keys> keys = keys_of(c);
  if (!keys) return std::nullopt;
  Split split = split_by(c, *keys);
  if (!split.fits()) return std::nullopt;
  std::vector<Layout> in = layouts_of(c, *keys, split), out;
  // In a ring the sums over the queries of all ranks are made on the way.
  Split of_keys = split;
  if (keys->ring) of_keys.set(static_cast<size_t>(c.factors.operands[kQ][kPositions][0]), {});
  for (size_t r = 0; r < 3; ++r) out.push_back(r == kQ ? split.result(r) : of_keys.result(r));
  for (size_t r : {kK, kV}) out[r].dims[kPositions] = keys->axes;
  if (!keys->ring) out[kQ].pending.insert(out[kQ].pending.end(), keys->axes.begin(), keys->axes.end());
  double bytes = bytes_brought(c, in);
  if (keys->ring)
    for (size_t i : {kK, kV})  // and its gradient
      bytes += 2 * static_cast<double>(keys->ranks - 1) * bytes_of_part(c, c.op.operands[i], in[i]);
  for (size_t r = 0; r < 3; ++r) bytes += bytes_returned(c, r, out[r]);
  Ruled ruled{out, bytes, nullptr};
  ruled.make = [=, keys = *keys, attrs = split.attrs(), &c] {
    std::vector<Val> operands = parts(c, in);
    return keys.ring ? backward_ring(c, keys, operands, attrs) : c.b.add(c.n.op->name, operands, attrs);
  };
  return ruled;
}

Ties keys_and_values(const ir::TypedOp& op) {
  std::vector<TensorDim> tie = {{false, kK, kPositions}, {false, kV, kPositions}};
  if (op.results.size() == 3) tie.insert(tie.end(), {{true, kK, kPositions}, {true, kV, kPositions}});
  return {tie};
}

}  // namespace nabla::passes
