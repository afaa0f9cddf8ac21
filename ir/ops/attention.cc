// Scaled dot-product attention. Its code is its decomposition: two batched matrix products around one kernel that
// scales, masks and normalises rows.
#include <cmath>
#include <limits>

#include "ir/ops/all_ops.h"
#include "ir/ops/composite.h"

namespace nabla::ops {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The optional operands behind q, k and v: a mask of dtype bool, then a key of dtype u32.
struct Extras {
  int mask = -1, key = -1;  ///< positions among the operands
};
template <class DTypeOf>
Extras extras_of(int count, DTypeOf dtype_of) {
  Extras out;
  int next = 3;
  if (next < count && dtype_of(next) == DType::kBool) out.mask = next++;
  if (next < count && dtype_of(next) == DType::kU32) out.key = next++;
  return out;
}
Extras extras_of(const std::vector<Type>& operands) {
  return extras_of(static_cast<int>(operands.size()), [&](int i) { return operands[i].dtype; });
}

double scale_of(const Attrs& attrs, const Dim& features) {
  double scale = attrs.get_float("scale");
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, features.bounds().max)));
}

/// Weights are kept where the random word is at least this.
int64_t threshold(double dropout) { return static_cast<int64_t>(std::min(dropout * 0x1p32, 0x1p32 - 1)); }

// ---- Types

Status check_shapes(const InferContext& ctx) {
  NABLA_TRY(require_float(ctx, 0, "C1"));
  for (int i : {1, 2}) NABLA_TRY(ctx.require_same_dtype(0, i, "C1"));
  for (int i : {0, 1, 2}) NABLA_TRY(require_rank(ctx, i, 4, "C2"));
  const Shape &q = ctx.shape(0), &k = ctx.shape(1), &v = ctx.shape(2);
  for (int i : {1, 2}) NABLA_TRY(ctx.require_equal(ctx.shape(i)[0], q[0], "C2", "batch sizes"));
  NABLA_TRY(ctx.require_equal(k[1], v[1], "C2", "heads of k and v"));
  NABLA_TRY(ctx.require_equal(k[2], v[2], "C2", "positions of k and v"));
  NABLA_TRY(ctx.require_equal(k[3], q[3], "C2", "features of q and k"));
  if (k[1].is(0) || !Dim::mod(q[1], k[1]).is(0))
    return ctx.fail(Code::kShapeMismatch, "C3", "{} query heads cannot share {} heads of keys", q[1].str(), k[1].str());
  return Ok{};
}

Status check_extras(const InferContext& ctx) {
  int count = static_cast<int>(ctx.operands.size());
  Extras e = extras_of(count, [&](int i) { return ctx.operands[i].dtype; });
  if (3 + (e.mask >= 0) + (e.key >= 0) != count)
    return ctx.fail(Code::kOperandCount, "C4", "behind q, k and v stand at most a bool mask and a u32 key, got {} more",
                    count - 3);
  if (e.mask >= 0) {
    NABLA_TRY(require_rank(ctx, e.mask, 4, "C4"));
    const Dim full[] = {ctx.shape(0)[0], ctx.shape(0)[1], ctx.shape(0)[2], ctx.shape(1)[2]};
    for (int d = 0; d < 4; ++d) {
      if (d < 2 && ctx.shape(e.mask)[d].is(1)) continue;
      NABLA_TRY(
          ctx.require_equal(ctx.shape(e.mask)[d], full[d], "C4", fmt::format("sizes of the mask in dimension {}", d)));
    }
  }
  double dropout = ctx.attrs.get_float("dropout");
  if (!(dropout >= 0 && dropout < 1))
    return ctx.fail(Code::kBadAttribute, "C5", "dropout is {}, not in [0, 1)", dropout);
  if ((dropout > 0) != (e.key >= 0))
    return ctx.fail(Code::kBadAttribute, "C5", "dropout is {} {} a key", dropout, e.key >= 0 ? "with" : "without");
  if (e.key >= 0 && !(ctx.rank(e.key) == 1 && ctx.shape(e.key)[0].is(2)))
    return ctx.fail(Code::kShapeMismatch, "C5", "the key is {}, expected u32[2]", ctx.operands[e.key].str());
  return Ok{};
}

InferResult infer_attention(const InferContext& ctx) {
  NABLA_TRY(check_shapes(ctx));
  NABLA_TRY(check_extras(ctx));
  Shape rows(ctx.shape(0).begin(), ctx.shape(0).end() - 1), out = rows;
  out.push_back(ctx.shape(2)[3]);
  return Types{Type(ctx.operands[0].dtype, out), Type(ctx.operands[0].dtype, rows)};
}

// ---- Reference

/// One query row: its weights over all keys, and the logarithm of their sum.
struct Row {
  std::vector<double> weights;
  double logsumexp;
};

Row weigh(const EvalContext& ctx, int64_t b, int64_t h, int64_t i) {
  const Literal &q = ctx.operands[0], &k = ctx.operands[1];
  const Extents &qs = q.shape(), &ks = k.shape();
  Extras e = extras_of(ctx.op.operands);
  double scale = scale_of(ctx.attrs(), qs[3]), top = -kInf, sum = 0;
  int64_t kv_head = h / (qs[1] / ks[1]);
  Row row{std::vector<double>(ks[2], -kInf), 0};
  for (int64_t j = 0; j < ks[2]; ++j) {
    if (ctx.attrs().get_bool("causal") && j > i + ks[2] - qs[2]) continue;
    if (e.mask >= 0) {
      const Extents& m = ctx.operands[e.mask].shape();
      if (!ctx.operands[e.mask].get_i(position_of({m[0] == 1 ? 0 : b, m[1] == 1 ? 0 : h, i, j}, m))) continue;
    }
    double dot = 0;
    for (int64_t d = 0; d < qs[3]; ++d)
      dot += q.get(position_of({b, h, i, d}, qs)) * k.get(position_of({b, kv_head, j, d}, ks));
    row.weights[j] = dot * scale;
    top = std::fmax(top, row.weights[j]);
  }
  if (top == -kInf) top = 0;
  for (double& w : row.weights) sum += w = std::exp(w - top);
  row.logsumexp = sum > 0 ? top + std::log(sum) : -kInf;
  for (double& w : row.weights) w = sum > 0 ? w / sum : 0;
  if (e.key < 0) return row;
  double dropout = ctx.attrs().get_float("dropout");
  uint32_t k0 = static_cast<uint32_t>(ctx.operands[e.key].get_i(0)),
           k1 = static_cast<uint32_t>(ctx.operands[e.key].get_i(1));
  for (int64_t j = 0; j < ks[2]; ++j) {
    int64_t word = kernel_ir::philox_word(k0, k1, position_of({b, h, i, j}, {qs[0], qs[1], qs[2], ks[2]}));
    row.weights[j] = word >= threshold(dropout) ? row.weights[j] / (1 - dropout) : 0;
  }
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

/// The tensors of one attention in their accumulation type. Queries that share a head of keys lie side by side, so
/// that each product is one batched matrix product without a copy of the keys.
struct Parts {
  FunctionBuilder& b;
  const TypedOp& op;
  const std::vector<Val>& operands;
  Shape scores;  ///< [batch, heads, queries, keys]
  Shape rows;    ///< [batch, heads, queries]

  Parts(FunctionBuilder& builder, const TypedOp& typed, const std::vector<Val>& values)
      : b(builder), op(typed), operands(values), rows(typed.operands[0].shape) {
    rows.pop_back();
    scores = rows;
    scores.push_back(op.operands[1].shape[2]);
  }
  Val operand(int i) const { return wide(operands[i]); }
  double scale() const { return scale_of(op.attrs, op.operands[0].shape[3]); }

  /// [batch, heads, queries, x] as [batch, heads of keys, queries of all that share one, x], and back.
  Val grouped(Val v) const {
    const Shape& k = op.operands[1].shape;
    Dim sharing = Dim::floordiv(rows[1], k[1]) * rows[2];
    return reshape(v, {rows[0], k[1], sharing, v.shape()[3]});
  }
  Val ungrouped(Val v) const { return reshape(v, {rows[0], rows[1], rows[2], v.shape()[3]}); }
  /// Products over the heads of keys; contracted dimensions as named.
  Val dot(Val x, int64_t x_dim, Val y, int64_t y_dim) const {
    return b.op("dot_general", {x, y},
                {{"lhs_contract", Ints{x_dim}},
                 {"rhs_contract", Ints{y_dim}},
                 {"lhs_batch", Ints{0, 1}},
                 {"rhs_batch", Ints{0, 1}}});
  }
  Val along_keys(Val v) const { return broadcast_along(v, scores, {3}); }

  /// Scaled products of q and k; -infinity where a key may not be seen.
  Val masked_scores() const {
    Val s = ungrouped(dot(grouped(operand(0)), 3, operand(1), 3)) * scale();
    Extras e = extras_of(op.operands);
    MaybeVal seen;
    if (op.attrs.get_bool("causal")) {
      auto iota = [&](int64_t axis) {
        Shape plane = {scores[2], scores[3]};
        return b.op("iota", {}, {{"shape", plane}, {"axis", axis}, {"dtype", DType::kI64}});
      };
      Val past = b.op("sub", {iota(1), iota(0)}), last = extent(scores[3] - scores[2], past.shape());
      seen = broadcast_in_dim(b.op("le", {past, last}), scores, {2, 3});
    }
    if (e.mask >= 0) {
      Val mask = operands[e.mask];
      Shape shape;
      Ints dims;
      for (int d = 0; d < 4; ++d)
        if (d >= 2 || mask.shape()[d] == scores[d]) shape.push_back(scores[d]), dims.push_back(d);
      Val spread = broadcast_in_dim(reshape(mask, shape), scores, dims);
      seen = seen ? b.op("and", {*seen, spread}) : spread;
    }
    return seen ? select(*seen, s, b.like(s, -kInf)) : s;
  }
  /// An extent as a tensor; symbolic ones are counted.
  Val extent(const Dim& d, const Shape& shape) const {
    if (d.is_static()) return b.fill(DType::kI64, shape, static_cast<double>(d.value()));
    Val keys = count(scores[3]), queries = count(scores[2]);
    return broadcast_in_dim(b.op("sub", {keys, queries}), shape, {});
  }
  Val count(const Dim& d) const { return reduce_sum(b.fill(DType::kI64, {d}, 1), {0}); }

  /// Weights or their cotangents with dropout: both are multiplied by the same mask.
  Val dropped(Val weights) const {
    Extras e = extras_of(op.operands);
    if (e.key < 0) return weights;
    double dropout = op.attrs.get_float("dropout");
    Val bits = b.op("rng_bits", {operands[e.key]}, {{"shape", scores}});
    Val least = b.constant(Literal::scalar_int(DType::kU32, threshold(dropout)));
    Val kept = b.op("ge", {bits, broadcast_in_dim(least, scores, {})});
    return select(kept, weights * (1 / (1 - dropout)), b.zeros_like(weights));
  }
};

Val equals(Val v, double number) { return apply("eq", v, v.b->like(v, number)); }

std::vector<Val> decompose_attention(DecomposeContext& ctx) {
  Parts p(ctx.b, ctx.op, ctx.operands);
  DType dtype = ctx.operand(0).dtype();
  Val s = p.masked_scores(), top = apply("stop_gradient", reduce_max(s, {3}));
  // A row that sees nothing has weights of 0.
  top = select(equals(top, -kInf), ctx.b.zeros_like(top), top);
  Val e = apply("exp", s - p.along_keys(top)), sum = reduce_sum(e, {3}), empty = equals(sum, 0);
  Val divisor = select(empty, ctx.b.like(sum, 1), sum);
  Val weights = p.dropped(e * p.along_keys(ctx.b.like(sum, 1) / divisor));
  Val out = p.ungrouped(p.dot(p.grouped(weights), 3, p.operand(2), 2));
  Val logsumexp = select(empty, ctx.b.like(sum, -kInf), top + apply("log", divisor));
  return {convert(out, dtype), convert(logsumexp, dtype)};
}

// The weights are computed again from the saved logsumexp. With P the weights, M the dropout mask and O the result:
// dV = (P M)' dO, dP = M (dO V'), dS = P (dP - rowsum(dO O) + d logsumexp), dQ = scale dS K, dK = scale dS' Q.
std::vector<MaybeVal> vjp_attention(VjpContext& ctx) {
  Parts p(ctx.b, ctx.op, ctx.operands);
  DType dtype = ctx.operand(0).dtype();
  std::vector<MaybeVal> out(ctx.operands.size());
  Val logsumexp = wide(ctx.result(1));
  logsumexp = select(equals(logsumexp, -kInf), ctx.b.zeros_like(logsumexp), logsumexp);
  Val weights = apply("exp", p.masked_scores() - p.along_keys(logsumexp));
  Val ct = wide(ctx.ct(0)), delta = reduce_sum(ct * wide(ctx.result(0)), {3});
  if (ctx.active[2]) out[2] = convert(p.dot(p.grouped(p.dropped(weights)), 2, p.grouped(ct), 2), dtype);
  if (!ctx.active[0] && !ctx.active[1]) return out;
  if (ctx.cotangents[1]) delta = delta - wide(ctx.ct(1));
  Val dp = p.dropped(p.ungrouped(p.dot(p.grouped(ct), 3, p.operand(2), 3)));
  Val ds = p.grouped(weights * (dp - p.along_keys(delta)) * p.scale());
  if (ctx.active[0]) out[0] = convert(p.ungrouped(p.dot(ds, 3, p.operand(1), 2)), dtype);
  if (ctx.active[1]) out[1] = convert(p.dot(ds, 2, p.grouped(p.operand(0)), 2), dtype);
  return out;
}

/// Batch, heads of keys and heads that share one pass; so do query positions and features of v, unless positions are
/// compared (causal) or random numbers are counted (dropout).
Factors factors_attention(const TypedOp& op) {
  using Kind = Factors::Kind;
  Factors f;
  const Shape &q = op.operands[0].shape, &k = op.operands[1].shape, &v = op.operands[2].shape;
  Extras e = extras_of(op.operands);
  Kind pass = e.key >= 0 ? Kind::kReplicate : Kind::kPass;
  int b = f.add("b", q[0], pass), h = f.add("h", k[1], pass),
      g = f.add("g", Dim::floordiv(q[1], k[1]), Kind::kReplicate);
  int s = f.add("s", q[2], op.attrs.get_bool("causal") ? Kind::kReplicate : pass),
      t = f.add("t", k[2], Kind::kReplicate);
  int d = f.add("d", q[3], Kind::kReplicate), w = f.add("w", v[3]);
  f.operands = {{{b}, {h, g}, {s}, {d}}, {{b}, {h}, {t}, {d}}, {{b}, {h}, {t}, {w}}};
  if (e.mask >= 0) {
    const Shape& m = op.operands[e.mask].shape;
    auto own = [](bool has, std::vector<int> list) { return has ? list : std::vector<int>{}; };
    f.operands.push_back({own(m[0] == q[0], {b}), own(m[1] == q[1], {h, g}), {s}, {t}});
  }
  if (e.key >= 0) f.operands.push_back({{f.add("r", 2, Kind::kReplicate)}});
  f.results = {{{b}, {h, g}, {s}, {w}}, {{b}, {h, g}, {s}}};
  return f;
}

Cost cost_attention(const TypedOp& op) {
  Cost cost = pointwise_cost(op, 0);
  const Shape &q = op.operands[0].shape, &v = op.operands[2].shape;
  cost.flops = q[0] * q[1] * q[2] * v[2] * (q[3] + v[3]) * (op.attrs.get_bool("causal") ? 1 : 2);
  return cost;
}

// ---- Examples

struct Sizes {
  int64_t batch, heads, kv_heads, queries, keys, features, out;
};

Example attention_example(const Sizes& s, bool causal, int mask_heads, double dropout, double scale = 0) {
  Example e{
      {operand(f32({s.batch, s.heads, s.queries, s.features})), operand(f32({s.batch, s.kv_heads, s.keys, s.features})),
       operand(f32({s.batch, s.kv_heads, s.keys, s.out}))},
      {{"causal", causal}, {"scale", scale}, {"dropout", dropout}}};
  if (mask_heads > 0)
    e.operands.push_back(
        operand(boolean({mask_heads == 1 ? 1 : s.batch, mask_heads, s.queries, s.keys}), between(0, 1)));
  if (dropout > 0) e.operands.push_back(operand(u32({2}), between(0, 4e9)));
  return e;
}

Example draw_attention(Rng& rng) {
  Sizes s;
  s.batch = random_int(rng, 1, 2), s.kv_heads = random_int(rng, 1, 2), s.heads = s.kv_heads * random_int(rng, 1, 3);
  s.queries = random_positive_dim(rng, 7), s.keys = random_positive_dim(rng, 7);
  s.features = random_int(rng, 1, 5), s.out = random_int(rng, 1, 5);
  int mask_heads = random_bool(rng) ? 0 : random_bool(rng) ? 1 : static_cast<int>(s.heads);
  return attention_example(s, random_bool(rng), mask_heads, random_int(rng, 0, 3) == 0 ? 0.3 : 0,
                           random_bool(rng) ? 0 : 0.7);
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
          {"C4", {q, k, v, f32({1, 1, 3, 6})}, {}},
          {"C4", {q, k, v, boolean({3, 6})}, {}},
          {"C4", {q, k, v, boolean({1, 1, 3, 5})}, {}},
          {"C5", {q, k, v}, drop},
          {"C5", {q, k, v, key}, {}},
          {"C5", {q, k, v, u32({3})}, drop},
          {"C5", {q, k, v, key}, {{"dropout", 1.0}}}};
}

OpDef attention() {
  OpDef op = make_composite(
      "attention",
      "softmax(scale q k' + mask) v per batch element and head. Heads of k and v may be fewer: neighbouring query "
      "heads then share one (grouped queries). causal: query i sees keys up to i + keys - queries, so that the last "
      "query sees all. A row that sees no key gives 0 and a logsumexp of -infinity. With dropout weights are zeroed "
      "where word i of the key's stream (see rng_bits) falls below it, i counting [batch, heads, queries, keys], and "
      "the others divided by 1 - dropout. Computed in f32 for 8- and 16-bit floats. logsumexp is a result for the way "
      "back, which computes the weights again. Vaswani et al., \"Attention is all you need\", 2017.",
      infer_attention, reference_attention, decompose_attention);
  op.operands = {{"q", "[batch, heads, queries, features]"},
                 {"k", "[batch, heads of keys, keys, features]"},
                 {"v", "[batch, heads of keys, keys, features of the result]"},
                 {"extras",
                  "a mask of which keys may be seen, bool [batch or 1, heads or 1, queries, keys]; then, for "
                  "dropout, a key u32[2]",
                  true, true}};
  op.attrs = {optional("causal", "whether queries see earlier keys only", false),
              optional("scale", "of the products; 0 stands for 1 / sqrt(features)", 0.0),
              optional("dropout", "share of the weights that is dropped, in [0, 1)", 0.0)};
  op.results = {{"out", "[batch, heads, queries, features of the result]"},
                {"logsumexp", "[batch, heads, queries]", true}};
  op.constraints = {{"C1", "q, k and v are floating and have one dtype"},
                    {"C2", "q, k and v have rank 4 and fit together"},
                    {"C3", "the heads of keys divide the heads of q"},
                    {"C4", "the extras are at most a bool mask that fits and a u32 key"},
                    {"C5", "dropout is in [0, 1); above 0 it needs a key u32[2], and only then there is one"}};
  op.vjp = vjp_attention;
  op.factors = factors_attention;
  op.cost = cost_attention;
  op.examples = {attention_example({1, 2, 2, 3, 3, 4, 4}, true, 0, 0),
                 attention_example({2, 4, 2, 3, 5, 4, 3}, false, 1, 0),
                 attention_example({1, 3, 1, 2, 4, 3, 2}, true, 3, 0.25)};
  op.draw = draw_attention;
  op.rejects = attention_rejects();
  return op;
}

}  // namespace

std::vector<OpDef> attention_ops() { return {attention()}; }

}  // namespace nabla::ops
