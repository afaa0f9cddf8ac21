// The way back through attention. Neither the weights nor their cotangents need to stand in memory: they follow row by
// row from q, k and what the way forward left.
#include <cmath>

#include "ir/ops/all_ops.h"
#include "ir/ops/nn/attention_parts.h"

namespace nabla::ops {
namespace {

constexpr int kLogsumexp = 3, kDelta = 4, kCotangent = 5, kFirstGradExtra = 6;

InferResult infer_attention_grad(const InferContext& ctx) {
  NABLA_TRY(check_attention_shapes(ctx));
  NABLA_TRY(check_attention_extras(ctx, kFirstGradExtra));
  Shape rows(ctx.shape(0).begin(), ctx.shape(0).end() - 1), out = rows;
  out.push_back(ctx.shape(2)[3]);
  DType dtype = ctx.operands[0].dtype, sums = accumulation_type(dtype);
  for (const auto& [i, want] : {std::pair(kLogsumexp, Type(sums, rows)), std::pair(kDelta, Type(sums, rows)),
                                std::pair(kCotangent, Type(dtype, out))})
    if (!(ctx.operands[i] == want))
      return ctx.fail(ctx.operands[i].dtype == want.dtype ? Code::kShapeMismatch : Code::kDTypeMismatch, "C7",
                      "operand {} is {}, expected {}", i, ctx.operands[i].str(), want.str());
  return Types{ctx.operands[0], ctx.operands[1], ctx.operands[2]};
}

// With P the weights, M the dropout mask and O the result of attention:
// dV = (P M)' dO, dP = M (dO V'), dS = P (dP - delta), dQ = scale dS K, dK = scale dS' Q.
Literals reference_attention_grad(const EvalContext& ctx) {
  Literal dq = zeros(ctx.op.results[0]), dk = zeros(ctx.op.results[1]), dv = zeros(ctx.op.results[2]);
  const Literal &q = ctx.operands[0], &k = ctx.operands[1], &v = ctx.operands[2], &ct = ctx.operands[kCotangent];
  const Extents &qs = q.shape(), &ks = k.shape(), &vs = v.shape();
  // Sums in doubles: results may be narrow.
  std::vector<double> sum_q(q.size()), sum_k(k.size()), sum_v(v.size());
  double scale = attention_scale(ctx.attrs(), qs[3]);
  for_each_index(ctx.operands[kDelta].shape(), [&](const Extents& at, int64_t row) {
    int64_t b = at[0], h = at[1], i = at[2], kv = h / (qs[1] / ks[1]);
    std::vector<double> scores = attention_scores(ctx, b, h, i, kFirstGradExtra);
    std::vector<double> kept = dropout_row(ctx, b, h, i, kFirstGradExtra);
    double logsumexp = ctx.operands[kLogsumexp].get(row), delta = ctx.operands[kDelta].get(row);
    if (logsumexp == -kInf) logsumexp = 0;
    for (int64_t j = 0; j < ks[2]; ++j) {
      double p = std::exp(scores[j] - logsumexp), dp = 0;
      for (int64_t w = 0; w < vs[3]; ++w) {
        double cotangent = ct.get(position_of({b, h, i, w}, ct.shape()));
        dp += cotangent * v.get(position_of({b, kv, j, w}, vs));
        sum_v[position_of({b, kv, j, w}, vs)] += p * kept[j] * cotangent;
      }
      double ds = p * (dp * kept[j] - delta) * scale;
      for (int64_t d = 0; d < qs[3]; ++d) {
        sum_q[position_of({b, h, i, d}, qs)] += ds * k.get(position_of({b, kv, j, d}, ks));
        sum_k[position_of({b, kv, j, d}, ks)] += ds * q.get(position_of({b, h, i, d}, qs));
      }
    }
  });
  for (auto [sums, out] : {std::pair(&sum_q, &dq), std::pair(&sum_k, &dk), std::pair(&sum_v, &dv)})
    for (size_t i = 0; i < sums->size(); ++i) out->set(static_cast<int64_t>(i), (*sums)[i]);
  return {dq, dk, dv};
}

std::vector<Val> decompose_attention_grad(DecomposeContext& ctx) {
  AttentionParts p(ctx.b, ctx.op, ctx.operands, kFirstGradExtra);
  DType dtype = ctx.operand(0).dtype();
  Val ct = p.operand(kCotangent), weights = p.weights_again(ctx.operand(kLogsumexp));
  Val dv = p.dot(p.grouped(p.dropped(weights)), 2, p.grouped(ct), 2);
  Val ds = p.grouped(p.scores_cotangent(weights, ctx.operand(kDelta), ct) * p.scale());
  Val dq = p.ungrouped(p.dot(ds, 3, p.operand(1), 2)), dk = p.dot(ds, 2, p.grouped(p.operand(0)), 2);
  return {convert(dq, dtype), convert(dk, dtype), convert(dv, dtype)};
}

Factors factors_attention_grad(const TypedOp& op) {
  AttentionFactors f = attention_factors(op, kFirstGradExtra);
  // dk and dv are sums over the queries and heads that share a key, and dp one over the features of v.
  for (ir::Factors::Factor& factor : f.factors.factors) {
    bool sums = factor.name == "s" || (factor.name == "g" && factor.kind == Factors::Kind::kPass);
    if (sums) factor.kind = Factors::Kind::kReduce, factor.combiner = kernel_ir::Combiner::kSum;
    if (factor.name == "w") factor.kind = Factors::Kind::kReplicate;
  }
  Factors::Tensor ct = f.rows;
  ct.push_back({f.out});
  f.factors.operands[kLogsumexp] = f.factors.operands[kDelta] = f.rows;
  f.factors.operands[kCotangent] = ct;
  f.factors.results = {f.factors.operands[0], f.factors.operands[1], f.factors.operands[2]};
  return f.factors;
}

// Five products over all pairs of a query and a key.
Cost cost_attention_grad(const TypedOp& op) {
  Cost cost = pointwise_cost(op, 0);
  const Shape &q = op.operands[0].shape, &v = op.operands[2].shape;
  cost.flops = q[0] * q[1] * q[2] * v[2] * (q[3] * 3 + v[3] * 2) * (op.attrs.get_bool("causal") ? 1 : 2);
  return cost;
}

Example attention_grad_example(DType dtype, const AttentionSizes& s, bool causal, int mask_heads, double dropout,
                               double scale = 0, int64_t shares = 0, DType mask = DType::kBool) {
  auto given = [&](Shape shape) { return operand(Type(dtype, std::move(shape))); };
  Type rows(accumulation_type(dtype), {s.batch, s.heads, s.queries});
  Example e{{given({s.batch, s.heads, s.queries, s.features}), given({s.batch, s.kv_heads, s.keys, s.features}),
             given({s.batch, s.kv_heads, s.keys, s.out}), operand(rows, between(0, 2)), operand(rows),
             given({s.batch, s.heads, s.queries, s.out})},
            {{"causal", causal}, {"scale", scale}, {"dropout", dropout}}};
  add_extras(e, s, mask_heads, dropout, shares, mask);
  return e;
}

Example draw_attention_grad(Rng& rng) {
  constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16};
  AttentionSizes s = draw_attention_sizes(rng);
  int mask_heads = random_bool(rng) ? 0 : random_bool(rng) ? 1 : static_cast<int>(s.heads);
  DType dtype = kDTypes[random_int(rng, 0, 3)];
  double dropout = random_int(rng, 0, 3) == 0 ? 0.3 : 0, scale = random_bool(rng) ? 0 : 0.7;
  DType mask = random_bool(rng) ? DType::kBool : random_bool(rng) ? DType::kF32 : dtype;
  Example e = attention_grad_example(dtype, s, random_bool(rng), mask_heads, dropout, scale,
                                     random_bool(rng) ? 0 : s.batch, mask);
  return maybe_part(rng, std::move(e), kFirstGradExtra);
}

std::vector<Reject> attention_grad_rejects() {
  Type q = f32({2, 4, 3, 5}), k = f32({2, 2, 6, 5}), v = f32({2, 2, 6, 7}), row = f32({2, 4, 3}),
       ct = f32({2, 4, 3, 7});
  return {{"C1", {i32({2, 4, 3, 5}), k, v, row, row, ct}, {}},
          {"C2", {q, f32({3, 2, 6, 5}), v, row, row, ct}, {}},
          {"C3", {f32({2, 3, 3, 5}), k, v, row, row, ct}, {}},
          {"C4", {q, k, v, row, row, ct, boolean({3, 6})}, {}},
          {"C4", {q, k, v, row, row, ct, Type(DType::kF64, {1, 1, 3, 6})}, {}},
          {"C5", {q, k, v, row, row, ct}, {{"dropout", 0.5}}},
          {"C7", {q, k, v, f32({2, 4, 1}), row, ct}, {}},
          {"C7", {q, k, v, row, Type(DType::kF64, row.shape), ct}, {}},
          {"C7", {q, k, v, row, row, f32({2, 4, 3, 5})}, {}},
          {"C6",
           {q, k, v, row, row, ct},
           {{"offset", ir::static_shape({0, 0, 2, 0})}, {"whole", ir::static_shape({2, 4, 4, 6})}}}};
}

OpDef attention_grad() {
  OpDef op = make_composite(
      "attention_grad",
      "The cotangents of q, k and v of `attention`, from the cotangent of its result. The weights are computed again "
      "from logsumexp; delta is what every row of them loses: the sum of the result times its cotangent, less the "
      "cotangent of logsumexp. Computed in f32 for 8- and 16-bit floats. Dao et al., \"FlashAttention\", 2022, "
      "section 3 and appendix B.",
      infer_attention_grad, reference_attention_grad, decompose_attention_grad);
  op.operands = {{"q", "[batch, heads, queries, features]"},
                 {"k", "[batch, heads of keys, keys, features]"},
                 {"v", "[batch, heads of keys, keys, features of the result]"},
                 {"logsumexp",
                  "what attention returned beside its result, [batch, heads, queries]; f32 for 8- and "
                  "16-bit floats, as delta"},
                 {"delta", "[batch, heads, queries]"},
                 {"ct", "the cotangent of the result, [batch, heads, queries, features of the result]"},
                 {"extras", "the mask and the key of the attention", true, true}};
  op.attrs = with_place({optional("causal", "as of the attention", false), optional("scale", "as of the attention", 0.0),
                         optional("dropout", "as of the attention", 0.0)});
  op.results = {{"dq", "shaped like q"}, {"dk", "shaped like k"}, {"dv", "shaped like v"}};
  op.constraints = {{"C1", "q, k and v are floating and have one dtype"},
                    {"C2", "q, k and v have rank 4 and fit together"},
                    {"C3", "the heads of keys divide the heads of q"},
                    {"C4", "the extras are at most a mask that fits, bool, f32 or of the dtype of q, and u32 keys"},
                    {"C5",
                     "dropout is in [0, 1); above 0 it needs a key u32[2], or u32[streams, 2] where streams divide the "
                     "batch, and only then there is one"},
                    place_constraint("C6"),
                    {"C7", "logsumexp, delta and ct fit q and v"}};
  op.whole = [](const TypedOp& op) { return whole_attention(op, "attention_grad", kFirstGradExtra); };
  op.batch = [](BatchContext& ctx) { return batch_attention(ctx, kFirstGradExtra); };
  op.factors = factors_attention_grad;
  op.rank_rule = ir::RankRule::kAttentionGrad;
  op.localise = [](const ir::Shard& shard) { return localise_attention(shard, kFirstGradExtra); };
  op.cost = cost_attention_grad;
  op.dtypes = DTypes::kAsWritten;  // logsumexp and delta follow q only where it is wide
  op.examples = {attention_grad_example(DType::kF32, {1, 2, 2, 3, 3, 4, 4}, true, 0, 0),
                 attention_grad_example(DType::kF64, {2, 4, 2, 3, 5, 4, 3}, false, 1, 0),
                 attention_grad_example(DType::kBF16, {2, 4, 2, 3, 5, 4, 3}, false, 1, 0),
                 attention_grad_example(DType::kF16, {1, 2, 1, 4, 4, 5, 4}, true, 0, 0),
                 attention_grad_example(DType::kF32, {1, 3, 1, 2, 4, 3, 2}, true, 3, 0.25),
                 attention_grad_example(DType::kF32, {4, 2, 1, 2, 3, 2, 2}, false, 2, 0.25, 0, 2),
                 attention_grad_example(DType::kF64, {4, 2, 2, 3, 2, 2, 2}, false, 1, 0, 0.5, 2),
                 attention_grad_example(DType::kF32, {2, 4, 2, 3, 5, 4, 3}, true, 1, 0, 0, 0, DType::kF32),
                 attention_grad_example(DType::kBF16, {4, 2, 1, 2, 3, 2, 2}, false, 2, 0.25, 0.5, 2, DType::kF32),
                 attention_grad_example(DType::kF16, {1, 2, 2, 3, 3, 4, 4}, false, 2, 0, 0, 0, DType::kF16),
                 part_of(attention_grad_example(DType::kF32, {2, 2, 1, 2, 3, 2, 2}, true, 0, 0.25), {1, 1, 2, 1},
                         {4, 3, 5, 6})};
  op.draw = draw_attention_grad;
  op.rejects = attention_grad_rejects();
  return op;
}

}  // namespace

std::vector<OpDef> attention_grad_ops() { return {attention_grad()}; }

}  // namespace nabla::ops
