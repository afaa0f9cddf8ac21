// Layers of transformers (Vaswani et al., 2017) with normalisation in front of each part, as in GPT-2.
#pragma once

#include <vector>

#include "frontend/cpp/layers.h"
#include "frontend/cpp/nn.h"

namespace nabla::nn {

/// Attention of several heads: projections of queries, keys, values [width, width] and of the result.
template <class T>
struct MultiHead {
  Affine<T> q, k, v, out;
  template <class V>
  void visit(V&& visit_member) {
    visit_member("q", q);
    visit_member("k", k);
    visit_member("v", v);
    visit_member("out", out);
  }
};
MultiHead<Spec> multi_head_spec(int64_t width);
void init_multi_head(const MultiHead<State>& layer, const Arg& key);

struct AttentionOptions {
  int64_t heads = 1;
  bool causal = false;
  Tensor mask = {};    ///< bool [batch or 1, heads or 1, queries, keys]: which keys a query sees; none: all
  double dropout = 0;  ///< share of the weights that is dropped, in [0, 1)
  Tensor key = {};     ///< u32[2], for dropout
};
/// Attention of queries [batch, positions, width] to keys and values made of `memory` [batch, keys, width].
Tensor multi_head_attention(const Arg& x, const Arg& memory, const MultiHead<Tensor>& layer,
                            const AttentionOptions& options);

template <class T>
struct EncoderLayer {
  NormPair<T> norm1, norm2;
  MultiHead<T> attention;
  Affine<T> up, down;
  template <class V>
  void visit(V&& v) {
    v("norm1", norm1);
    v("attention", attention);
    v("norm2", norm2);
    v("up", up);
    v("down", down);
  }
};
EncoderLayer<Spec> encoder_layer_spec(int64_t width, int64_t inner);
void init_encoder_layer(const EncoderLayer<State>& layer, const Arg& key);
/// h = x + attention(norm1(x)); h + down(gelu(up(norm2(h)))). x [batch, positions, width]. With `causal` a layer of a
/// decoder without an encoder.
Tensor encoder_layer(const Arg& x, const EncoderLayer<Tensor>& layer, const AttentionOptions& options);

/// An encoder layer with attention to the encoder's result in between.
template <class T>
struct DecoderLayer {
  EncoderLayer<T> self;
  NormPair<T> norm;
  MultiHead<T> cross;
  template <class V>
  void visit(V&& v) {
    v("self", self);
    v("norm", norm);
    v("cross", cross);
  }
};
DecoderLayer<Spec> decoder_layer_spec(int64_t width, int64_t inner);
void init_decoder_layer(const DecoderLayer<State>& layer, const Arg& key);
/// Causal attention among x [batch, positions, width], attention to `memory` [batch, keys, width], and the two dense
/// layers; `memory_mask` as in AttentionOptions.
Tensor decoder_layer(const Arg& x, const Arg& memory, const DecoderLayer<Tensor>& layer, int64_t heads,
                     const Tensor& memory_mask = {});

}  // namespace nabla::nn
