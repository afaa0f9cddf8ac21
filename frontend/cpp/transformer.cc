#include "frontend/cpp/transformer.h"

#include "frontend/cpp/emit.h"

namespace nabla::nn {
namespace {

NormPair<Spec> norm_spec(int64_t width) { return {{f32, {width}}, {f32, {width}}}; }

void init_norm(const NormPair<State>& norm) {
  norm.scale.set(ones(norm.scale.type().shape));
  norm.shift.set(zeros(norm.shift.type().shape));
}

Tensor normal(const Tensor& x, const NormPair<Tensor>& norm) { return layer_norm(x, norm.scale, norm.shift); }

Tensor dense_part(const Tensor& x, const EncoderLayer<Tensor>& layer) {
  return x + dense(gelu(dense(normal(x, layer.norm2), layer.up)), layer.down);
}
Tensor attention_part(const Tensor& x, const EncoderLayer<Tensor>& layer, const AttentionOptions& options) {
  Tensor h = normal(x, layer.norm1);
  return x + multi_head_attention(h, h, layer.attention, options);
}

}  // namespace

MultiHead<Spec> multi_head_spec(int64_t width) {
  Affine<Spec> one = dense_spec(width, width);
  return {one, one, one, one};
}

void init_multi_head(const MultiHead<State>& layer, const Arg& key) {
  AtSite at(key);
  uint32_t n = 0;
  for (const Affine<State>* part : {&layer.q, &layer.k, &layer.v, &layer.out}) init_affine(*part, fold_in(key, n++));
}

Tensor multi_head_attention(const Arg& x, const Arg& memory, const MultiHead<Tensor>& layer,
                            const AttentionOptions& o) {
  AtSite at(x);
  Tensor q = split_heads(dense(x, layer.q), o.heads);
  Tensor k = split_heads(dense(memory, layer.k), o.heads), v = split_heads(dense(memory, layer.v), o.heads);
  std::vector<Arg> extras;
  if (o.mask.has_value()) extras.emplace_back(o.mask);
  if (o.key.has_value()) extras.emplace_back(o.key);
  return dense(merge_heads(attention(q, k, v, extras, o.causal, /*scale=*/0, o.dropout)), layer.out);
}

EncoderLayer<Spec> encoder_layer_spec(int64_t width, int64_t inner) {
  return {norm_spec(width), norm_spec(width), multi_head_spec(width), dense_spec(width, inner),
          dense_spec(inner, width)};
}

void init_encoder_layer(const EncoderLayer<State>& layer, const Arg& key) {
  AtSite at(key);
  init_norm(layer.norm1);
  init_norm(layer.norm2);
  init_multi_head(layer.attention, fold_in(key, 0));
  init_affine(layer.up, fold_in(key, 1));
  init_affine(layer.down, fold_in(key, 2));
}

Tensor encoder_layer(const Arg& x, const EncoderLayer<Tensor>& layer, const AttentionOptions& options) {
  AtSite at(x);
  return dense_part(attention_part(x.tensor(), layer, options), layer);
}

DecoderLayer<Spec> decoder_layer_spec(int64_t width, int64_t inner) {
  return {encoder_layer_spec(width, inner), norm_spec(width), multi_head_spec(width)};
}

void init_decoder_layer(const DecoderLayer<State>& layer, const Arg& key) {
  AtSite at(key);
  init_encoder_layer(layer.self, fold_in(key, 0));
  init_norm(layer.norm);
  init_multi_head(layer.cross, fold_in(key, 1));
}

Tensor decoder_layer(const Arg& x, const Arg& memory, const DecoderLayer<Tensor>& layer, int64_t heads,
                     const Tensor& memory_mask) {
  AtSite at(x);
  Tensor h = attention_part(x.tensor(), layer.self, {.heads = heads, .causal = true});
  h = h + multi_head_attention(normal(h, layer.norm), memory, layer.cross, {.heads = heads, .mask = memory_mask});
  return dense_part(h, layer.self);
}

}  // namespace nabla::nn
