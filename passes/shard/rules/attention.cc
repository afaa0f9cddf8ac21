// Attention whose keys and values ranks share. Where queries lie along the same axes, keys and values travel round the
// ring of the ranks. Where they do not, each rank attends to the keys that it has, and ranks combine.
#include <algorithm>

#include "ir/cost/exchange.h"
#include "passes/shard/rules/attended.h"
#include "passes/shard/rules/families.h"
#include "passes/shard/rules/ring.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Dim;
using ir::Val;


/// How the node lies.
struct Keys {
  Axes axes;  ///< of the keys
  bool ring;  ///< queries lie along them too
  int64_t ranks;
  Dim own;  ///< keys of a rank
};
std::optional<Keys> keys_of(const RuleContext& c, size_t first_extra) {
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
  bool masked = c.op.operands.size() > first_extra && c.op.operands[first_extra].dtype != DType::kU32;
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

Ring ring_of(const RuleContext& c, const Keys& keys, const ir::Attrs& attrs, int first_extra) {
  return {c, keys.axes, keys.ranks, keys.own, attrs, first_extra};
}

}  // namespace

static std::optional<Ruled> attended_by_ranks(const RuleContext& c) {
  std::optional<Keys> keys = keys_of(c, 3);
  if (!keys) return std::nullopt;
  Split split = split_by(c, *keys);
  if (!split.fits()) return std::nullopt;
  std::vector<Layout> in = layouts_of(c, *keys, split);
  Layout out = split.result(0), rows = split.result(1);
  double bytes = bytes_brought(c, in), row_bytes = bytes_of_part(c, c.op.results[1], rows);
  if (keys->ring)
    for (size_t i : {kK, kV}) bytes += static_cast<double>(keys->ranks - 1) * bytes_of_part(c, c.op.operands[i], in[i]);
  else
    out.pending = keys->axes, bytes += 2 * ir::sent_bytes(CollectiveKind::kAllReduce, keys->ranks, row_bytes);
  bytes += bytes_returned(c, 0, out) + bytes_returned(c, 1, rows);
  Ruled ruled{{out, rows}, bytes, nullptr};
  ruled.operands.assign(in.begin(), in.end());
  ruled.make = [=, keys = *keys, attrs = split.attrs(), &c] {
    std::vector<Val> operands = parts(c, in);
    if (keys.ring) return ring_forward(ring_of(c, keys, attrs, 3), operands);
    Attended own = attended(c.b.add(c.n.op->name, operands, attrs));
    Attended all = combined_over_ranks(c, own, keys.axes);
    return std::vector<Val>{ir::convert(all.out, c.op.results[0].dtype), all.logsumexp};
  };
  return ruled;
}

static std::optional<Ruled> attention_back(const RuleContext& c) {
  std::optional<Keys> keys = keys_of(c, 6);
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
  ruled.operands.assign(in.begin(), in.end());
  ruled.make = [=, keys = *keys, attrs = split.attrs(), &c] {
    std::vector<Val> operands = parts(c, in);
    return keys.ring ? ring_backward(ring_of(c, keys, attrs, 6), operands) : c.b.add(c.n.op->name, operands, attrs);
  };
  return ruled;
}

static Ties keys_and_values(const ir::TypedOp& op) {
  std::vector<TensorDim> tie = {{false, kK, kPositions}, {false, kV, kPositions}};
  if (op.results.size() == 3) tie.insert(tie.end(), {{true, kK, kPositions}, {true, kV, kPositions}});
  return {tie};
}

std::span<const OpRule> attention_rules() {
  constexpr const char* kKeys =
      "keys and values travel round the ring of the ranks, with their gradients on the way back; where queries lie elsewhere "
      "each rank attends to its own keys, and the results are weighed by their logsumexp";
  using ir::RankRule;
  static const OpRule kRules[] = {
      {RankRule::kAttention, attended_by_ranks, keys_and_values, kKeys, true},
      {RankRule::kAttentionGrad, attention_back, keys_and_values, kKeys, true},
  };
  return kRules;
}

}  // namespace nabla::passes
