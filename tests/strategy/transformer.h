// Training steps that say nothing of ranks: a transformer, and a layer of experts.
#pragma once

#include "ir/module.h"

namespace nabla::strategy_tests {

struct TransformerSizes {
  int layers = 1;
  int64_t batch = 2, length = 16, width = 64, heads = 4;
  bool momentum = false;
  /// How the weights of queries, keys and values lie: apart (leaves q, k, v); or in one leaf qkv [width, 3 width], those of each
  /// head together, or all queries first.
  enum class Packed { kApart, kByHeads, kByKinds } packed = Packed::kApart;
};
/// Blocks of attention (leaves block0.q, .k, .v, .out) and feed-forward layers (.up, .down), each after an RMS norm (.norm1,
/// .norm2), and a step of gradient descent by the mean of squares of what comes out of input x.
ir::Module transformer(const TransformerSizes& sizes);

/// Experts (leaves up [experts, width, hidden] and down) that each get the tokens of input x that a router (router [width,
/// experts]) has sent to them, by a product with a mask of slots, and a step of gradient descent.
ir::Module mixture_of_experts(int64_t experts);

/// Rows of a table (leaf table [32, 64]) that input x f32[16,32] of numbers in [-1, 1] names, times a weight (leaf w), and a step of
/// gradient descent.
ir::Module looked_up();

}  // namespace nabla::strategy_tests
