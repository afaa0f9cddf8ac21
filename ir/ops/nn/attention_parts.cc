#include "ir/ops/nn/attention_parts.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace nabla::ops {

AttentionExtras attention_extras(std::span<const Type> operands, int first) {
  AttentionExtras out;
  int next = first, count = static_cast<int>(operands.size());
  DType dtype = next < count ? operands[next].dtype : DType::kU32;
  if (dtype == DType::kBool || is_float(dtype)) out.mask = next++;
  if (next < count && operands[next].dtype == DType::kU32) out.key = next++;
  return out;
}

double attention_scale(const Attrs& attrs, const Dim& features) {
  double scale = attrs.get_float("scale");
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, features.value())));
}

int64_t dropout_threshold(double dropout) { return static_cast<int64_t>(std::min(dropout * 0x1p32, 0x1p32 - 1)); }

namespace {

/// Of keys u32[2] or u32[streams, 2].
Dim streams_of(const Type& keys) { return keys.rank() == 2 ? keys.shape[0] : Dim(1); }

/// How many neighbours share one of `parts`, which divide `whole`.
Dim neighbours(const Dim& parts, const Dim& whole) { return parts == whole ? Dim(1) : Dim::floordiv(whole, parts); }

}  // namespace

// ---- Places

Shape counted_scores(std::span<const Type> operands, int first_extra) {
  AttentionExtras e = attention_extras(operands, first_extra);
  const Shape& q = operands[0].shape;
  Dim batch = e.key >= 0 ? neighbours(streams_of(operands[e.key]), q[0]) : q[0];
  return {batch, q[1], q[2], operands[1].shape[2]};
}

Place place_of_scores(const TypedOp& op, int first_extra) {
  return place_in(op.attrs, counted_scores(op.operands, first_extra));
}

// Where neither positions are compared nor words counted, a part needs no place.
Attrs localise_attention(const ir::Shard& shard, int first_extra) {
  const TypedOp& op = shard.op;
  AttentionExtras e = attention_extras(op.operands, first_extra);
  if (e.key < 0 && !op.attrs.get_bool("causal")) return op.attrs;
  const Factors::Tensor &q = shard.factors.operands[0], &k = shard.factors.operands[1];
  Place place = place_of_scores(op, first_extra);
  auto begin = [&](const std::vector<int>& factors) {
    Dim out = 0;
    for (int f : factors) out = out * shard.factors.factors[f].size + shard.begins[f];
    return out;
  };
  if (e.key >= 0) {
    // A stream counts its own batch elements.
    Dim streams = streams_of(op.operands[e.key]);
    std::vector<int> batch = q[0];
    if (streams == op.operands[0].shape[0])
      batch.clear();
    else if (!streams.is(1))
      batch.erase(batch.begin());
    place.offset[0] = place.offset[0] + begin(batch), place.offset[1] = place.offset[1] + begin(q[1]);
  } else {
    std::vector<Type> part = {shard.operand(0), shard.operand(1)};
    for (size_t d : {0, 1}) place.offset[d] = 0, place.whole[d] = part[0].shape[d];
  }
  place.offset[2] = place.offset[2] + begin(q[2]), place.offset[3] = place.offset[3] + begin(k[2]);
  Attrs attrs = op.attrs;
  attrs.set("offset", place.offset);
  attrs.set("whole", place.whole);
  return attrs;
}

// ---- Types

bool divides(const Dim& parts, const Dim& whole) {
  return parts == whole || (parts.bounds().min > 0 && Dim::mod(whole, parts).is(0));
}

Status check_attention_shapes(const InferContext& ctx) {
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
  if (ctx.attrs.get_float("scale") == 0 && !q[3].is_static())
    return ctx.fail(Code::kBadAttribute, "C2",
                    "the number of features is {}, which is not known at compile time, and so is the scale 1 / sqrt(features): "
                    "give a scale, or a fixed number of features", q[3].str());
  return Ok{};
}

Status check_attention_extras(const InferContext& ctx, int first) {
  int count = static_cast<int>(ctx.operands.size());
  AttentionExtras e = attention_extras(ctx.operands, first);
  if (first + (e.mask >= 0) + (e.key >= 0) != count)
    return ctx.fail(Code::kOperandCount, "C4",
                    "after the first {} operands stand at most a bool or floating mask and a u32 key, got {} more", first,
                    count - first);
  if (e.mask >= 0) {
    DType mask = ctx.operands[e.mask].dtype, dtype = ctx.operands[0].dtype;
    if (mask != DType::kBool && mask != dtype && mask != DType::kF32)
      return ctx.fail(Code::kDTypeMismatch, "C4", "a mask of {} is neither bool nor f32 nor {} as q is", name_of(mask),
                      name_of(dtype));
    NABLA_TRY(require_rank(ctx, e.mask, 4, "C4"));
    const Dim full[] = {ctx.shape(0)[0], ctx.shape(0)[1], ctx.shape(0)[2], ctx.shape(1)[2]};
    for (int d = 0; d < 4; ++d) {
      const Dim& size = ctx.shape(e.mask)[d];
      if (d == 0 ? divides(size, full[0]) : d == 1 && size.is(1)) continue;
      NABLA_TRY(ctx.require_equal(size, full[d], "C4", fmt::format("sizes of the mask in dimension {}", d)));
    }
  }
  double dropout = ctx.attrs.get_float("dropout");
  if (!(dropout >= 0 && dropout < 1))
    return ctx.fail(Code::kBadAttribute, "C5", "dropout is {}, not in [0, 1)", dropout);
  if ((dropout > 0) != (e.key >= 0))
    return ctx.fail(Code::kBadAttribute, "C5", "dropout is {} {} a key", dropout, e.key >= 0 ? "with" : "without");
  if (e.key < 0) return require_place(ctx, counted_scores(ctx.operands, first), "C6");
  const Type& key = ctx.operands[e.key];
  if (key.rank() < 1 || key.rank() > 2 || !key.shape.back().is(2))
    return ctx.fail(Code::kShapeMismatch, "C5", "the key is {}, expected u32[2] or u32[streams, 2]", key.str());
  if (!divides(streams_of(key), ctx.shape(0)[0]))
    return ctx.fail(Code::kShapeMismatch, "C5", "{} streams cannot be shared out to {} batch elements",
                    streams_of(key).str(), ctx.shape(0)[0].str());
  return require_place(ctx, counted_scores(ctx.operands, first), "C6");
}

// ---- Reference

std::vector<double> attention_scores(const EvalContext& ctx, int64_t b, int64_t h, int64_t i, int first_extra) {
  const Literal &q = ctx.operands[0], &k = ctx.operands[1];
  const Extents &qs = q.shape(), &ks = k.shape();
  AttentionExtras e = attention_extras(ctx.op.operands, first_extra);
  double scale = attention_scale(ctx.attrs(), qs[3]);
  int64_t kv_head = h / (qs[1] / ks[1]);
  Place place = place_of_scores(ctx.op, first_extra);
  // The last query of the whole sees the last key of the whole.
  int64_t query = i + place.offset[2].value() + place.whole[3].value() - place.whole[2].value();
  std::vector<double> scores(ks[2], -kInf);
  for (int64_t j = 0; j < ks[2]; ++j) {
    if (ctx.attrs().get_bool("causal") && j + place.offset[3].value() > query) continue;
    double added = 0, dot = 0;
    if (e.mask >= 0) {
      const Literal& mask = ctx.operands[e.mask];
      const Extents& m = mask.shape();
      int64_t at = position_of({b * m[0] / qs[0], m[1] == 1 ? 0 : h, i, j}, m);
      if (is_float(mask.dtype())) added = mask.get(at);
      else if (!mask.get_i(at)) continue;
    }
    for (int64_t d = 0; d < qs[3]; ++d)
      dot += q.get(position_of({b, h, i, d}, qs)) * k.get(position_of({b, kv_head, j, d}, ks));
    scores[j] = dot * scale + added;
  }
  return scores;
}

std::vector<double> dropout_row(const EvalContext& ctx, int64_t b, int64_t h, int64_t i, int first_extra) {
  const Extents &qs = ctx.operands[0].shape(), &ks = ctx.operands[1].shape();
  AttentionExtras e = attention_extras(ctx.op.operands, first_extra);
  std::vector<double> out(ks[2], 1);
  if (e.key < 0) return out;
  double dropout = ctx.attrs().get_float("dropout");
  const Literal& keys = ctx.operands[e.key];
  int64_t sharing = qs[0] / (keys.size() / 2), stream = b / sharing;
  uint32_t k0 = static_cast<uint32_t>(keys.get_i(2 * stream)), k1 = static_cast<uint32_t>(keys.get_i(2 * stream + 1));
  Place place = place_of_scores(ctx.op, first_extra);
  for (int64_t j = 0; j < ks[2]; ++j) {
    Extents at = {b % sharing, h, i, j}, whole;
    for (size_t d = 0; d < at.size(); ++d)
      at[d] += place.offset[d].value(), whole.push_back(place.whole[d].value());
    int64_t word = kernel_ir::philox_word(k0, k1, position_of(at, whole));
    out[j] = word >= dropout_threshold(dropout) ? 1 / (1 - dropout) : 0;
  }
  return out;
}

// ---- Decompositions

AttentionParts::AttentionParts(FunctionBuilder& builder, const TypedOp& typed, const std::vector<Val>& values,
                               int first_extra)
    : b(builder),
      op(typed),
      operands(values),
      extras(attention_extras(typed.operands, first_extra)),
      place(place_of_scores(typed, first_extra)),
      rows(typed.operands[0].shape) {
  rows.pop_back();
  scores = rows;
  scores.push_back(op.operands[1].shape[2]);
}

Val AttentionParts::grouped(Val v) const {
  const Shape& k = op.operands[1].shape;
  Dim sharing = Dim::floordiv(rows[1], k[1]) * rows[2];
  return reshape(v, {rows[0], k[1], sharing, v.shape()[3]});
}
Val AttentionParts::dot(Val x, int64_t x_dim, Val y, int64_t y_dim) const {
  return b.op("dot_general", {x, y},
              {{"lhs_contract", Ints{x_dim}},
               {"rhs_contract", Ints{y_dim}},
               {"lhs_batch", Ints{0, 1}},
               {"rhs_batch", Ints{0, 1}}});
}

Val AttentionParts::masked_scores() const {
  Val s = ungrouped(dot(grouped(operand(0)), 3, operand(1), 3)) * scale();
  if (mask_adds()) s = s + convert(spread_mask(), s.dtype());
  MaybeVal seen;
  if (op.attrs.get_bool("causal")) {
    Val past = b.op("sub", {positions(1), positions(0)}), last = last_key(past.shape());
    seen = broadcast_in_dim(b.op("le", {past, last}), scores, {2, 3});
  }
  if (extras.mask >= 0 && !mask_adds()) seen = seen ? b.op("and", {*seen, spread_mask()}) : spread_mask();
  return seen ? select(*seen, s, b.like(s, -kInf)) : s;
}
Val AttentionParts::spread_mask() const {
  Val mask = operands[extras.mask];
  Shape shape, full = shared_scores(mask.shape()[0]);
  Ints dims;
  for (int d : {0, 1, 2, 3})
    if (d != 1 || mask.shape()[1] == scores[1]) shape.push_back(mask.shape()[d]), dims.push_back(d == 0 ? 0 : d + 1);
  return reshape(broadcast_in_dim(reshape(mask, shape), full, dims), scores);
}
Val AttentionParts::weights_again(Val logsumexp) const {
  logsumexp = select(equals(logsumexp, -kInf), b.zeros_like(logsumexp), logsumexp);
  return apply("exp", masked_scores() - along_keys(logsumexp));
}
Val AttentionParts::scores_cotangent(Val weights, Val delta, Val ct) const {
  Val given = dropped(ungrouped(dot(grouped(ct), 3, operand(2), 3)));
  return weights * (given - along_keys(delta));
}
Val AttentionParts::mask_cotangent(Val scores_ct) const {
  const Type& mask = op.operands[extras.mask];
  Ints shared = {1};
  if (!(mask.shape[1] == scores[1])) shared.push_back(2);
  return convert(reshape(reduce_sum(reshape(scores_ct, shared_scores(mask.shape[0])), shared), mask.shape), mask.dtype);
}
Val AttentionParts::positions(int64_t axis) const {
  Attrs attrs = {{"shape", Shape{scores[2], scores[3]}}, {"axis", axis}, {"dtype", DType::kI64}};
  if (!op.attrs.get_shape("offset").empty()) {
    attrs.set("offset", Shape{place.offset[2], place.offset[3]});
    attrs.set("whole", Shape{place.whole[2], place.whole[3]});
  }
  return b.op("iota", {}, attrs);
}
Val AttentionParts::last_key(const Shape& shape) const {
  Dim d = place.whole[3] - place.whole[2];
  if (d.is_static()) return b.fill(DType::kI64, shape, static_cast<double>(d.value()));
  Val keys = count(place.whole[3]), queries = count(place.whole[2]);
  return broadcast_in_dim(b.op("sub", {keys, queries}), shape, {});
}

Shape AttentionParts::shared_scores(const Dim& parts) const {
  return {parts, neighbours(parts, scores[0]), scores[1], scores[2], scores[3]};
}

Val AttentionParts::dropped(Val weights) const {
  if (extras.key < 0) return weights;
  double dropout = op.attrs.get_float("dropout");
  Val key = operands[extras.key];
  Shape shape = key.rank() == 2 ? shared_scores(key.shape()[0]) : scores;
  Attrs attrs = {{"shape", shape}};
  if (!op.attrs.get_shape("offset").empty()) {
    Place of = place;
    if (key.rank() == 2) {
      of.offset.insert(of.offset.begin(), Dim(0));
      of.whole.insert(of.whole.begin(), key.shape()[0]);
    }
    attrs.set("offset", of.offset);
    attrs.set("whole", of.whole);
  }
  Val bits = reshape(b.op("rng_bits", {key}, attrs), scores);
  Val least = b.constant(Literal::scalar_int(DType::kU32, dropout_threshold(dropout)));
  Val kept = b.op("ge", {bits, broadcast_in_dim(least, scores, {})});
  return select(kept, weights * (1 / (1 - dropout)), b.zeros_like(weights));
}

Val equals(Val v, double number) { return apply("eq", v, v.b->like(v, number)); }

// ---- Batches

namespace {

/// The first two dimensions as one.
Val folded(Val v) {
  Shape shape(v.shape().begin() + 1, v.shape().end());
  shape[0] = v.shape()[0] * shape[0];
  return reshape(v, shape);
}

/// The attributes for operands with more batch elements or heads. Streams count their own batch elements; where there
/// are none, nothing is compared along batch and heads.
Attrs placed_attrs(const BatchContext& ctx, const std::vector<Val>& operands, int first_extra) {
  Attrs attrs = ctx.attrs();
  Place place = place_of_scores(ctx.op, first_extra);
  if (attrs.get_shape("offset").empty() || attention_extras(ctx.op.operands, first_extra).key >= 0) return attrs;
  for (size_t d : {0, 1}) place.offset[d] = 0, place.whole[d] = operands[0].shape()[d];
  attrs.set("offset", place.offset);
  attrs.set("whole", place.whole);
  return attrs;
}

/// Queries [examples, batch, heads, ...] as queries of one batch, whose head h of example e is head h * examples + e.
std::vector<Val> examples_as_heads(BatchContext& ctx) {
  Val q = transpose(ctx.operands[0], {1, 2, 0, 3, 4});
  Shape shape = {q.shape()[0], q.shape()[1] * ctx.size, q.shape()[3], q.shape()[4]};
  std::vector<Val> operands = ctx.operands, out;
  operands[0] = reshape(q, shape);
  for (Val v : ctx.b.add(ctx.op.op.name, operands, placed_attrs(ctx, operands, 3))) {
    Shape apart = v.shape();
    apart[1] = ctx.op.operands[0].shape[1];
    apart.insert(apart.begin() + 2, ctx.size);
    Ints order = {2, 0, 1, 3};
    if (apart.size() == 5) order.push_back(4);
    out.push_back(transpose(reshape(v, apart), order));
  }
  return out;
}

}  // namespace

std::vector<Val> batch_attention(BatchContext& ctx, int first_extra) {
  const std::vector<Type>& types = ctx.op.operands;
  AttentionExtras e = attention_extras(types, first_extra);
  bool other = std::find(ctx.batched.begin() + 1, ctx.batched.end(), true) != ctx.batched.end();
  bool mask_of_heads = e.mask >= 0 && !types[e.mask].shape[1].is(1);
  if (first_extra == 3 && !other && !mask_of_heads && e.key < 0) return examples_as_heads(ctx);
  const Dim& batch = types[0].shape[0];
  for (int extra : {e.mask, e.key})
    if (extra >= 0 &&
        !divides(ctx.size * (extra == e.key ? streams_of(types[extra]) : types[extra].shape[0]), ctx.size * batch))
      return batch_in_loop(ctx);
  std::vector<Val> operands, out;
  for (int i = 0; i < static_cast<int>(types.size()); ++i) {
    bool for_all = i == e.mask && !ctx.batched[i] && types[i].shape[0].is(1),
         single = i == e.key && types[i].rank() == 1;
    Val v = for_all ? ctx.operands[i] : ctx.batched_operand(i);
    operands.push_back(for_all || single ? v : folded(v));
  }
  std::vector<Val> results = ctx.b.add(ctx.op.op.name, operands, placed_attrs(ctx, operands, first_extra));
  for (size_t r = 0; r < results.size(); ++r) {
    Shape shape = ctx.op.results[r].shape;
    shape.insert(shape.begin(), ctx.size);
    out.push_back(reshape(results[r], shape));
  }
  return out;
}

// ---- Factors

namespace {

// Batch elements in a row may share a mask, or a stream: the factors of the batch are the number of what is shared, and
// how many share it. Cut parts must be neighbours where words are counted.
struct BatchFactors {
  std::vector<int> batch;          // of q
  std::vector<int> masks, streams;  // of what is shared; empty: one serves all
};
BatchFactors batch_factors(Factors& f, const TypedOp& op, const AttentionExtras& e) {
  using Kind = Factors::Kind;
  const Dim& all = op.operands[0].shape[0];
  Dim masks = e.mask >= 0 ? op.operands[e.mask].shape[0] : Dim(1),
      streams = e.key >= 0 ? streams_of(op.operands[e.key]) : Dim(1);
  auto some = [&](const Dim& n) { return !n.is(1) && !(n == all); };
  bool unlike = some(masks) && some(streams) && !(masks == streams);
  Dim shared = some(streams) ? streams : some(masks) ? masks : all;
  BatchFactors out;
  out.batch = {f.add("b", shared, unlike ? Kind::kReplicate : Kind::kPass)};
  // With one stream for all, batch elements that share a mask count as neighbours of those before.
  bool apart = unlike || (e.key >= 0 && streams.is(1));
  if (!(shared == all)) out.batch.push_back(f.add("c", neighbours(shared, all), apart ? Kind::kReplicate : Kind::kPass));
  auto of = [&](const Dim& n, const char* name) -> std::vector<int> {
    if (n == all) return out.batch;
    if (n == shared) return {out.batch[0]};
    return n.is(1) ? std::vector<int>{} : std::vector<int>{f.add(name, n, Kind::kReplicate)};
  };
  out.masks = of(masks, "m"), out.streams = of(streams, "n");
  return out;
}

}  // namespace

// Everything but keys and features of q and k passes. Heads that share one of k and v are no neighbours where there are
// several of those, and words are counted over heads.
AttentionFactors attention_factors(const TypedOp& op, int first_extra) {
  using Kind = Factors::Kind;
  AttentionFactors out;
  Factors& f = out.factors;
  const Shape &q = op.operands[0].shape, &k = op.operands[1].shape, &v = op.operands[2].shape;
  AttentionExtras e = attention_extras(op.operands, first_extra);
  BatchFactors b = batch_factors(f, op, e);
  int h = f.add("h", k[1]), g = f.add("g", Dim::floordiv(q[1], k[1]),
                                      e.key >= 0 && !k[1].is(1) ? Kind::kReplicate : Kind::kPass),
      s = f.add("s", q[2]), t = f.add("t", k[2], Kind::kReplicate), d = f.add("d", q[3], Kind::kReplicate),
      w = f.add("w", v[3]);
  f.operands.assign(op.operands.size(), {});
  f.operands[0] = {b.batch, {h, g}, {s}, {d}}, f.operands[1] = {b.batch, {h}, {t}, {d}};
  f.operands[2] = {b.batch, {h}, {t}, {w}};
  if (e.mask >= 0) {
    bool of_heads = op.operands[e.mask].shape[1] == q[1];
    f.operands[e.mask] = {b.masks, of_heads ? std::vector<int>{h, g} : std::vector<int>{}, {s}, {t}};
  }
  if (e.key >= 0) {
    if (op.operands[e.key].rank() == 2) f.operands[e.key].push_back(b.streams);
    f.operands[e.key].push_back({f.add("r", 2, Kind::kReplicate)});
  }
  out.rows = {b.batch, {h, g}, {s}};
  out.out = w;
  return out;
}

std::optional<kernel_ir::Procedure> whole_attention(const TypedOp& op, std::string_view name, int first_extra) {
  constexpr int64_t kMostFeatures = 256;  // of which tiles fit into the shared memory of every target
  const Shape &q = op.operands[0].shape, &k = op.operands[1].shape, &v = op.operands[2].shape;
  DType dtype = op.operands[0].dtype;
  AttentionExtras e = attention_extras(op.operands, first_extra);
  auto fits = [&](const Dim& d) { return d.is_static() && d.value() >= 1 && d.value() <= kMostFeatures; };
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16) return {};
  if (!fits(q[3]) || !fits(v[3])) return {};
  auto [at, of] = place_of_scores(op, first_extra);
  Dim word_head = of[2] * of[3], word = ((at[0] * of[1] + at[1]) * of[2] + at[2]) * of[3] + at[3];
  const Shape none = {0, 0}, &mask = e.mask >= 0 ? op.operands[e.mask].shape : none;
  auto bits = [](double x) { return Dim(std::bit_cast<uint32_t>(static_cast<float>(x))); };
  double dropout = op.attrs.get_float("dropout");
  return kernel_ir::procedure(
      name, {q[0] * q[1], q[2], 1, q[1], k[1], k[2], q[3], v[3], op.attrs.get_bool("causal") ? 1 : 0, mask[0], mask[1],
             bits(attention_scale(op.attrs, q[3])), e.key >= 0 ? streams_of(op.operands[e.key]) : Dim(0),
             dropout_threshold(dropout), bits(1 / (1 - dropout)), of[3] - of[2] + at[2] - at[3], word, of[1] * word_head,
             word_head, of[3]});
}

AttentionSizes draw_attention_sizes(Rng& rng) {
  AttentionSizes s;
  s.batch = random_int(rng, 1, 2), s.kv_heads = random_int(rng, 1, 2), s.heads = s.kv_heads * random_int(rng, 1, 3);
  s.queries = random_positive_dim(rng, 7), s.keys = random_positive_dim(rng, 7);
  s.features = random_int(rng, 1, 5), s.out = random_int(rng, 1, 5);
  return s;
}

void add_extras(Example& e, const AttentionSizes& s, int64_t mask_heads, double dropout, int64_t shares, DType mask) {
  int64_t masks = shares > 0 ? shares : mask_heads == 1 ? 1 : s.batch;
  if (mask_heads > 0) e.operands.push_back(operand(Type(mask, {masks, mask_heads, s.queries, s.keys})));
  if (dropout > 0) e.operands.push_back(operand(shares > 0 ? u32({shares, 2}) : u32({2}), between(0, 4e9)));
}

Example part_of(Example e, const std::vector<int64_t>& offset, const std::vector<int64_t>& whole) {
  e.attrs.set("offset", ir::static_shape(offset));
  e.attrs.set("whole", ir::static_shape(whole));
  return e;
}

Example maybe_part(Rng& rng, Example e, int first_extra) {
  if (random_bool(rng)) return e;
  std::vector<Type> types;
  for (const auto& o : e.operands) types.push_back(o.type);
  std::vector<int64_t> offset, whole;
  for (const Dim& d : counted_scores(types, first_extra)) {
    offset.push_back(random_int(rng, 0, 2));
    whole.push_back(offset.back() + d.value() + random_int(rng, 0, 2));
  }
  return part_of(std::move(e), offset, whole);
}

}  // namespace nabla::ops
