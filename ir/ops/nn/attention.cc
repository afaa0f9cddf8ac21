// Scaled dot-product attention. Its code is its decomposition: two batched matrix products around one kernel that
// scales, masks and normalises rows.
#include <cmath>

#include "ir/ops/all_ops.h"
#include "ir/ops/nn/attention_parts.h"

namespace nabla::ops {
namespace {

constexpr int kFirstExtra = 3;  // after q, k and v

InferResult infer_attention(const InferContext& ctx) {
  NABLA_TRY(check_attention_shapes(ctx));
  NABLA_TRY(check_attention_extras(ctx, kFirstExtra));
  Shape rows(ctx.shape(0).begin(), ctx.shape(0).end() - 1), out = rows;
  out.push_back(ctx.shape(2)[3]);
  return Types{Type(ctx.operands[0].dtype, out), Type(accumulation_type(ctx.operands[0].dtype), rows)};
}

// ---- Reference

/// One query row: its weights over all keys, and the logarithm of their sum.
struct Row {
  std::vector<double> weights;
  double logsumexp;
};

Row weigh(const EvalContext& ctx, int64_t b, int64_t h, int64_t i) {
  Row row{attention_scores(ctx, b, h, i, kFirstExtra), 0};
  double top = -kInf, sum = 0;
  for (double score : row.weights) top = std::fmax(top, score);
  if (top == -kInf) top = 0;
  for (double& w : row.weights) sum += w = std::exp(w - top);
  row.logsumexp = sum > 0 ? top + std::log(sum) : -kInf;
  std::vector<double> kept = dropout_row(ctx, b, h, i, kFirstExtra);
  for (size_t j = 0; j < kept.size(); ++j) row.weights[j] = sum > 0 ? row.weights[j] / sum * kept[j] : 0;
  return row;
}

Literals reference_attention(const EvalContext& ctx) {
  Literal out = zeros(ctx.op.results[0]), logsumexp = zeros(ctx.op.results[1]);
  const Literal& v = ctx.operands[2];
  int64_t group = ctx.operands[0].shape()[1] / v.shape()[1];
  for_each_index(logsumexp.shape(), [&](const Extents& at, int64_t position) {
    Row row = weigh(ctx, at[0], at[1], at[2]);
    logsumexp.set(position, row.logsumexp);
    for (int64_t d = 0; d < v.shape()[3]; ++d) {
      double sum = 0;
      for (int64_t j = 0; j < v.shape()[2]; ++j)
        sum += row.weights[j] * v.get(position_of({at[0], at[1] / group, j, d}, v.shape()));
      out.set(position_of({at[0], at[1], at[2], d}, out.shape()), sum);
    }
  });
  return {out, logsumexp};
}

// ---- Decomposition and derivative

std::vector<Val> decompose_attention(DecomposeContext& ctx) {
  AttentionParts p(ctx.b, ctx.op, ctx.operands, kFirstExtra);
  DType dtype = ctx.operand(0).dtype();
  Val s = p.masked_scores(), top = apply("stop_gradient", reduce_max(s, {3}));
  // A row that sees nothing has weights of 0.
  top = select(equals(top, -kInf), ctx.b.zeros_like(top), top);
  Val e = apply("exp", s - p.along_keys(top)), sum = reduce_sum(e, {3}), empty = equals(sum, 0);
  Val divisor = select(empty, ctx.b.like(sum, 1), sum);
  Val weights = p.dropped(e * p.along_keys(ctx.b.like(sum, 1) / divisor));
  Val out = p.ungrouped(p.dot(p.grouped(weights), 3, p.operand(2), 2));
  Val logsumexp = select(empty, ctx.b.like(sum, -kInf), top + apply("log", divisor));
  return {convert(out, dtype), logsumexp};
}

// The weights are computed again from the saved logsumexp; what the result's cotangent takes from every row is summed
// before: delta = rowsum(dO O) - d logsumexp. A mask that is learned, which is seldom, has its gradient by products of its own.
std::vector<MaybeVal> vjp_attention(VjpContext& ctx) {
  Val ct = ctx.ct(0), delta = reduce_sum(wide(ct) * wide(ctx.result(0)), {3});
  if (ctx.cotangents[1]) delta = delta - ctx.ct(1);
  std::vector<MaybeVal> out(ctx.operands.size());
  if (ctx.active[0] || ctx.active[1] || ctx.active[2]) {
    std::vector<Val> operands(ctx.operands.begin(), ctx.operands.begin() + kFirstExtra);
    operands.insert(operands.end(), {ctx.result(1), delta, ct});
    operands.insert(operands.end(), ctx.operands.begin() + kFirstExtra, ctx.operands.end());
    std::vector<Val> gradients = ctx.b.add("attention_grad", operands, ctx.attrs());
    for (int i = 0; i < kFirstExtra; ++i)
      if (ctx.active[i]) out[i] = gradients[i];
  }
  AttentionParts p(ctx.b, ctx.op, ctx.operands, kFirstExtra);
  if (p.extras.mask >= 0 && ctx.active[p.extras.mask])
    out[p.extras.mask] = p.mask_cotangent(p.scores_cotangent(p.weights_again(ctx.result(1)), delta, wide(ct)));
  return out;
}

Factors factors_attention(const TypedOp& op) {
  AttentionFactors f = attention_factors(op, kFirstExtra);
  Factors::Tensor out = f.rows;
  out.push_back({f.out});
  f.factors.results = {out, f.rows};
  return f.factors;
}

Cost cost_attention(const TypedOp& op) {
  Cost cost = pointwise_cost(op, 0);
  const Shape &q = op.operands[0].shape, &v = op.operands[2].shape;
  cost.flops = q[0] * q[1] * q[2] * v[2] * (q[3] + v[3]) * (op.attrs.get_bool("causal") ? 1 : 2);
  return cost;
}

// ---- Examples

Example attention_example(const AttentionSizes& s, bool causal, int mask_heads, double dropout, double scale = 0,
                          int64_t shares = 0, DType mask = DType::kBool) {
  Example e{
      {operand(f32({s.batch, s.heads, s.queries, s.features})), operand(f32({s.batch, s.kv_heads, s.keys, s.features})),
       operand(f32({s.batch, s.kv_heads, s.keys, s.out}))},
      {{"causal", causal}, {"scale", scale}, {"dropout", dropout}}};
  add_extras(e, s, mask_heads, dropout, shares, mask);
  return e;
}

// The same with other keys for its random words.
Example with_streams(Example e, Type keys) {
  e.operands.back().type = std::move(keys);
  return e;
}

Example draw_attention(Rng& rng) {
  AttentionSizes s = draw_attention_sizes(rng);
  int mask_heads = random_bool(rng) ? 0 : random_bool(rng) ? 1 : static_cast<int>(s.heads);
  double dropout = random_int(rng, 0, 3) == 0 ? 0.3 : 0, scale = random_bool(rng) ? 0 : 0.7;
  DType mask = random_bool(rng) ? DType::kBool : DType::kF32;
  Example e = attention_example(s, random_bool(rng), mask_heads, dropout, scale, random_bool(rng) ? 0 : s.batch, mask);
  return maybe_part(rng, std::move(e), kFirstExtra);
}

std::vector<Reject> attention_rejects() {
  Type q = f32({2, 4, 3, 5}), k = f32({2, 2, 6, 5}), v = f32({2, 2, 6, 7}), key = u32({2});
  auto changed = [](Type t, int d, int64_t size) {
    t.shape[d] = size;
    return t;
  };
  Attrs drop = {{"dropout", 0.5}};
  return {{"C1", {i32({2, 4, 3, 5}), k, v}, {}},
          {"C1", {q, Type(DType::kF64, k.shape), v}, {}},
          {"C2", {f32({4, 3, 5}), k, v}, {}},
          {"C2", {q, changed(k, 0, 3), v}, {}},
          {"C2", {q, k, changed(v, 2, 5)}, {}},
          {"C2", {q, changed(k, 3, 4), v}, {}},
          {"C3", {changed(q, 1, 3), k, v}, {}},
          {"C4", {q, k, v, i32({1, 1, 3, 6})}, {}},
          {"C4", {q, k, v, Type(DType::kF16, {1, 1, 3, 6})}, {}},
          {"C4", {q, k, v, f32({1, 1, 3, 5})}, {}},
          {"C4", {q, k, v, boolean({3, 6})}, {}},
          {"C4", {q, k, v, boolean({1, 1, 3, 5})}, {}},
          {"C4", {q, k, v, boolean({3, 1, 3, 6})}, {}},
          {"C5", {q, k, v}, drop},
          {"C5", {q, k, v, key}, {}},
          {"C5", {q, k, v, u32({3})}, drop},
          {"C5", {q, k, v, u32({3, 2})}, drop},
          {"C5", {q, k, v, key}, {{"dropout", 1.0}}},
          {"C6", {q, k, v}, {{"offset", ir::static_shape({0, 0, 2, 0})}, {"whole", ir::static_shape({2, 4, 4, 6})}}},
          {"C6", {q, k, v}, {{"offset", ir::static_shape({2})}, {"whole", ir::static_shape({6})}}}};
}

OpDef attention() {
  OpDef op = make_composite(
      "attention",
      "softmax(scale q k' + mask) v per batch element and head. Heads of k and v may be fewer: neighbouring query "
      "heads then share one (grouped queries). causal: query i sees keys up to i + keys - queries, so that the last "
      "query sees all. A row that sees no key gives 0 and a logsumexp of -infinity. With dropout weights are zeroed "
      "where word i of the key's stream (see rng_bits) falls below it, i counting [batch, heads, queries, keys], and "
      "the others divided by 1 - dropout. Batch elements in a row may share a mask, or a stream, which counts them "
      "from "
      "0: n of either serve batch / n elements each. Of a part, offset and whole are those of its [batch elements of a "
      "stream, heads, queries, keys]. Computed in f32 for 8- and 16-bit floats. logsumexp is a result "
      "for the way "
      "back, which computes the weights again (attention_grad); it is f32 for them. Vaswani et al., \"Attention is all "
      "you need\", 2017.",
      infer_attention, reference_attention, decompose_attention);
  op.operands = {{"q", "[batch, heads, queries, features]"},
                 {"k", "[batch, heads of keys, keys, features]"},
                 {"v", "[batch, heads of keys, keys, features of the result]"},
                 {"extras",
                  "a mask [batch or a divisor, heads or 1, queries, keys]: bool, of which keys may be seen, or f32 or of "
                  "the dtype of q, added to the scaled scores (-infinity hides a key); then, for dropout, a key u32[2], "
                  "or u32[streams, 2]",
                  true, true}};
  op.attrs = with_place({optional("causal", "whether queries see earlier keys only", false),
                         optional("scale", "of the products; 0 stands for 1 / sqrt(features)", 0.0),
                         optional("dropout", "share of the weights that is dropped, in [0, 1)", 0.0)});
  op.results = {{"out", "[batch, heads, queries, features of the result]"},
                {"logsumexp", "[batch, heads, queries]", true}};
  op.constraints = {{"C1", "q, k and v are floating and have one dtype"},
                    {"C2", "q, k and v have rank 4 and fit together"},
                    {"C3", "the heads of keys divide the heads of q"},
                    {"C4", "the extras are at most a mask that fits, bool, f32 or of the dtype of q, and u32 keys"},
                    {"C5",
                     "dropout is in [0, 1); above 0 it needs a key u32[2], or u32[streams, 2] where streams divide the "
                     "batch, and only then there is one"},
                    place_constraint("C6")};
  op.vjp = vjp_attention;
  op.traits.products = true;
  op.whole = [](const TypedOp& op) { return whole_attention(op, "attention", kFirstExtra); };
  op.batch = [](BatchContext& ctx) { return batch_attention(ctx, kFirstExtra); };
  op.factors = factors_attention;
  op.rank_rule = ir::RankRule::kAttention;
  op.localise = [](const ir::Shard& shard) { return localise_attention(shard, kFirstExtra); };
  op.cost = cost_attention;
  op.examples = {attention_example({1, 2, 2, 3, 3, 4, 4}, true, 0, 0),
                 attention_example({2, 4, 2, 3, 5, 4, 3}, false, 1, 0),
                 attention_example({1, 3, 1, 2, 4, 3, 2}, true, 3, 0.25),
                 attention_example({4, 2, 1, 2, 3, 2, 2}, false, 2, 0.25, 0, 2),
                 attention_example({4, 2, 2, 3, 2, 2, 2}, false, 1, 0, 0.5, 2),
                 attention_example({2, 4, 2, 3, 5, 4, 3}, true, 1, 0, 0, 0, DType::kF32),
                 attention_example({4, 2, 1, 2, 3, 2, 2}, false, 2, 0.25, 0.5, 2, DType::kF32),
                 with_streams(attention_example({4, 2, 1, 2, 3, 2, 2}, false, 2, 0.25, 0, 2), u32({2})),
                 with_streams(attention_example({6, 2, 1, 2, 3, 2, 2}, true, 1, 0.25, 0, 2), u32({3, 2})),
                 part_of(attention_example({2, 2, 1, 2, 3, 2, 2}, true, 0, 0.25), {1, 1, 2, 1}, {4, 3, 5, 6}),
                 part_of(attention_example({4, 2, 2, 2, 3, 2, 2}, true, 1, 0.25, 0, 2), {1, 0, 0, 2}, {3, 4, 7, 5})};
  op.draw = draw_attention;
  op.rejects = attention_rejects();
  return op;
}

}  // namespace

std::vector<OpDef> attention_ops() { return {attention()}; }

}  // namespace nabla::ops
