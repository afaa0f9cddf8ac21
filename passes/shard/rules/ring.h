// Attention of a rank's queries to the keys and values of all ranks, which travel round the ring of the ranks (Liu et
// al., "Ring Attention with Blockwise Transformers", 2023). Each rank's keys and values are a block; a block's distance
// is how many ranks after the rank's own it began. Where the blocks need not know their places, the steps between the
// first and the last are one loop, so that the size of the program does not grow with the number of ranks.
#pragma once

#include "passes/shard/rules/rules.h"

namespace nabla::passes {

struct Ring {
  const RuleContext& c;  ///< of attention or attention_grad
  ir::Axes axes;         ///< of queries, keys and values
  int64_t ranks;
  ir::Dim own;       ///< keys of a rank
  ir::Attrs attrs;   ///< of the node for the rank's queries and all keys
  int first_extra;   ///< operands from here on are a mask or the key of the dropout
};

/// The node's results, from the rank's parts of its operands.
std::vector<ir::Val> ring_forward(const Ring& ring, const std::vector<ir::Val>& operands);
/// The same of attention_grad: the gradients of a block are added up on their way round the ring, and end with the rank
/// that the block belongs to.
std::vector<ir::Val> ring_backward(const Ring& ring, const std::vector<ir::Val>& operands);

}  // namespace nabla::passes
