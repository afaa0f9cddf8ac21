// A decoder-only transformer over bytes, with training, evaluation and generation through a KV cache.
#pragma once

#include <array>
#include <string>

#include "frontend/nabla.h"

namespace nabla::charlm {

inline constexpr int64_t kVocabulary = 256;  ///< bytes, so that any text will do
inline constexpr int64_t kContext = 128;
inline constexpr int64_t kLayers = 4, kWidth = 128, kHeads = 4, kHead = kWidth / kHeads;
inline constexpr int64_t kBatch = 16;

struct Options {
  int64_t steps = 1500;  ///< of the learning rate's schedule
  double learning_rate = 2e-3;
  double dropout = 0;
};

template <class T>
struct Block {
  nn::NormPair<T> norm1, norm2;
  T qkv, out, up, down;
  template <class V>
  void visit(V&& v) {
    v("norm1", norm1), v("norm2", norm2);
    v("qkv", qkv), v("out", out), v("up", up), v("down", down);
  }
};

template <class T>
struct Model {
  T embedding, positions;
  std::array<Block<T>, kLayers> blocks;
  nn::NormPair<T> norm;
  template <class V>
  void visit(V&& v) {
    v("embedding", embedding), v("positions", positions);
    for (int64_t i = 0; i < kLayers; ++i) v(("block" + std::to_string(i)).c_str(), blocks[i]);
    v("norm", norm);
  }
};
Model<Spec> model_specs();
Block<Spec> block_specs();

/// Keys and values of the positions so far: [1, heads, context, features of a head] per layer.
template <class T>
struct Cache {
  std::array<T, kLayers> keys, values;
  template <class V>
  void visit(V&& v) {
    for (int64_t i = 0; i < kLayers; ++i) v(("k" + std::to_string(i)).c_str(), keys[i]);
    for (int64_t i = 0; i < kLayers; ++i) v(("v" + std::to_string(i)).c_str(), values[i]);
  }
};

/// One block over x [batch, len, width], causal, nothing dropped.
Tensor block(const Block<Tensor>& b, const Tensor& x);
/// tokens i32 [batch, len] -> logits [batch, len, vocabulary]. With a rate above 0, `key` u32[2] says what is dropped.
Tensor forward(const Model<Tensor>& p, const Tensor& tokens, double dropout = 0, const Tensor& key = {});

/// One token from logits [vocabulary]: at a temperature of 0 the most likely one; else drawn from the top_k most likely
/// ones (all when top_k is 0) that have less than top_p of the probability before them.
Tensor sample(const Tensor& logits, const Tensor& temperature, const Tensor& top_k, const Tensor& top_p,
              const Tensor& key);

/// Entries, with 1 <= batch <= 16 and 1 <= len <= 128:
///   init(seed)
///   step(tokens u8[16,129]) -> loss, gradient_norm  one step of AdamW with clipping, warm-up and cosine decay
///   eval(tokens u8[batch,len+1]) -> loss           mean negative log-likelihood in nats per character
///   forward(tokens u8[batch,len]) -> logits
///   prefill(tokens u8[len]) -> logits              starts a text; fills the cache
///   decode(token u8[]) -> logits                   the next position; at most 128 in all
///   sample(logits, temperature, top_k, top_p, seed) -> token
Program make_program(const Options& options);

}  // namespace nabla::charlm
