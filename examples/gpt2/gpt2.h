// GPT-2 (Radford et al., 2019): the 124M configuration and smaller ones, trained in bf16 with f32 masters.
#pragma once

#include <vector>

#include "frontend/nabla.h"

namespace nabla::gpt2 {

/// Every size of the model. The defaults are GPT-2 124M with its vocabulary padded to a multiple of 64, as nanoGPT
/// does: 50,257 tokens, and 47 rows that no label names. Pretrained weights have 50,257.
struct Options {
  int64_t layers = 12, width = 768, heads = 12, vocabulary = 50304;
  int64_t context = 1024;  ///< tokens of one sequence
  int64_t batch = 8;       ///< sequences of one step
  double learning_rate = 6e-4;
  int64_t steps = 100'000;  ///< of the learning rate's schedule, 1% of them warm-up
  bool autocast = true;     ///< matrix products in bf16; parameters, gradients and AdamW's moments are f32 anyway
};

/// x + out(attention(norm1(x))), then x + down(gelu(up(norm2(x)))).
template <class T>
struct Block {
  nn::NormPair<T> norm1, norm2;
  nn::Affine<T> qkv, out, up, down;
  template <class V>
  void visit(V&& v) {
    v("norm1", norm1), v("norm2", norm2);
    v("qkv", qkv), v("out", out), v("up", up), v("down", down);
  }
};

template <class T>
struct Model {
  T tokens, positions;  ///< embeddings; `tokens` is also the output layer
  std::vector<Block<T>> blocks;
  nn::NormPair<T> norm;
  template <class V>
  void visit(V&& v) {
    v("tokens", tokens), v("positions", positions);
    v("blocks", blocks);
    v("norm", norm);
  }
};
Model<Spec> model_specs(const Options& options);

/// tokens i32 [batch, positions] -> logits [batch, positions, vocabulary].
Tensor forward(const Model<Tensor>& p, const Tensor& tokens, int64_t heads);

/// Entries, with T = context + 1, so that every position of the context has a label:
///   init(seed u32[2])
///   step(tokens i32[batch,T]) -> loss, gradient_norm   one step of AdamW with clipping, warm-up and cosine decay
///   eval(tokens i32[batch,T]) -> loss                  mean negative log-likelihood in nats per token
/// E0204 where heads do not divide the width.
Program make_program(const Options& options);

}  // namespace nabla::gpt2
