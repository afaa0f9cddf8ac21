// What attention and its way back share: optional operands, the scale, and the steps of their decompositions.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "ir/ops/composite.h"
#include "ir/ops/movement/placed.h"

namespace nabla::ops {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// The optional operands after the `first` ones: a mask, bool (true: may be seen) or floating (added to the scores), then
/// keys of dtype u32. Batch elements in a row may share a mask, or a stream of random words.
struct AttentionExtras {
  int mask = -1, key = -1;  ///< positions among the operands
};
AttentionExtras attention_extras(std::span<const Type> operands, int first);
/// Of the products; `features` are those of q.
double attention_scale(const Attrs& attrs, const Dim& features);
/// Weights are kept where the random word is at least this.
int64_t dropout_threshold(double dropout);

/// The scores that are counted from 0 together: [batch elements that share a stream of random words, heads, queries,
/// keys]. Attributes `offset` and `whole` speak of them.
Shape counted_scores(std::span<const Type> operands, int first_extra);
Place place_of_scores(const TypedOp& op, int first_extra);
/// The `localise` of both.
Attrs localise_attention(const ir::Shard& shard, int first_extra);

/// Can `parts` things be shared out to `whole` neighbours, the same number to each?
bool divides(const Dim& parts, const Dim& whole);

/// C1 to C3 of q, k and v, operands 0 to 2.
Status check_attention_shapes(const InferContext& ctx);
/// C4 and C5 of the operands after the `first` ones, and C6: the place.
Status check_attention_extras(const InferContext& ctx, int first);

/// Of the reference, for one query: its scaled products with all keys and what a mask adds, -infinity where a key may not
/// be seen.
std::vector<double> attention_scores(const EvalContext& ctx, int64_t b, int64_t h, int64_t i, int first_extra);
/// What dropout multiplies that row's weights by: 0 or 1 / (1 - dropout); all 1 without dropout.
std::vector<double> dropout_row(const EvalContext& ctx, int64_t b, int64_t h, int64_t i, int first_extra);

/// The tensors of one attention in their accumulation type. Queries that share a head of keys lie side by side, so
/// that each product is one batched matrix product without a copy of the keys.
struct AttentionParts {
  FunctionBuilder& b;
  const TypedOp& op;
  const std::vector<Val>& operands;
  AttentionExtras extras;
  Place place;   ///< of the scores in the whole
  Shape scores;  ///< [batch, heads, queries, keys]
  Shape rows;    ///< [batch, heads, queries]

  AttentionParts(FunctionBuilder& builder, const TypedOp& typed, const std::vector<Val>& values, int first_extra);
  Val operand(int i) const { return wide(operands[i]); }
  double scale() const { return attention_scale(op.attrs, op.operands[0].shape[3]); }

  /// [batch, heads, queries, x] as [batch, heads of keys, queries of all that share one, x], and back.
  Val grouped(Val v) const;
  Val ungrouped(Val v) const { return reshape(v, {rows[0], rows[1], rows[2], v.shape()[3]}); }
  /// Products over the heads of keys; contracted dimensions as named.
  Val dot(Val x, int64_t x_dim, Val y, int64_t y_dim) const;
  Val along_keys(Val v) const { return broadcast_along(v, scores, {3}); }
  /// Scaled products of q and k, and what the mask adds; -infinity where a key may not be seen.
  Val masked_scores() const;
  /// On the way back: the weights, from what the way forward left of each row.
  Val weights_again(Val logsumexp) const;
  /// The cotangent of the scores, from those of the rows of the result: delta as of attention_grad.
  Val scores_cotangent(Val weights, Val delta, Val ct) const;
  /// The cotangent of a mask of numbers, from that of the scores: a sum over all that share a number.
  Val mask_cotangent(Val scores_ct) const;
  /// Weights or their cotangents with dropout: both are multiplied by the same mask.
  Val dropped(Val weights) const;

 private:
  bool mask_adds() const { return extras.mask >= 0 && is_float(operands[extras.mask].dtype()); }
  /// The mask, for each score.
  Val spread_mask() const;
  /// Positions in the whole along one dimension of [queries, keys].
  Val positions(int64_t axis) const;
  /// The last key that query 0 of the whole sees.
  Val last_key(const Shape& shape) const;
  /// [parts, batch elements that share one, heads, queries, keys]
  Shape shared_scores(const Dim& parts) const;
  Val count(const Dim& d) const { return reduce_sum(b.fill(DType::kI64, {d}, 1), {0}); }
};

/// Examples of a batch become batch elements, or, where queries alone differ, heads that share the keys.
std::vector<Val> batch_attention(ir::BatchContext& ctx, int first_extra);

/// Factors of q, k, v and the extras after the `first` operands; operands between are left empty. `rows` are the
/// factors of [batch, heads, queries], `out` that of the features of v.
struct AttentionFactors {
  Factors factors;
  Factors::Tensor rows;
  int out;
};
AttentionFactors attention_factors(const TypedOp& op, int first_extra);

/// The procedure of this name, by which a GPU computes attention or its way back without scores in memory: of f32,
/// bf16 and f16, up to 256 features.
std::optional<kernel_ir::Procedure> whole_attention(const TypedOp& op, std::string_view name, int first_extra);

/// Sizes of an example.
struct AttentionSizes {
  int64_t batch, heads, kv_heads, queries, keys, features, out;
};
AttentionSizes draw_attention_sizes(Rng& rng);
/// The extras of an example: a mask of a dtype unless mask_heads is 0, a key where there is dropout. `shares`: how many
/// masks and streams there are; 0: a mask per batch element where it has heads, else one.
void add_extras(Example& e, const AttentionSizes& s, int64_t mask_heads, double dropout, int64_t shares, DType mask);

/// The example as a part of a whole; half of them at random places.
Example maybe_part(Rng& rng, Example e, int first_extra);
Example part_of(Example e, const std::vector<int64_t>& offset, const std::vector<int64_t>& whole);

Val equals(Val v, double number);

}  // namespace nabla::ops
