// Computing elementwise tensors inside their users.
#pragma once

#include "passes/lower/tensor_graph.h"

namespace nabla::passes {

/// Rewrites the formulas so that cheap maps, and maps with a single user that reads each element once, are
/// computed where they are read. `stored[t]`: t must be in memory anyway. Afterwards inlined[t] tells that nobody
/// loads t any more. `by_sizes`: how often a map would be computed counts. `again_cost`: the arithmetic of an element (ir::arithmetic)
/// that several users may repeat to read fewer bytes than the map has, instead of storing it.
struct InlineResult {
  TensorGraph graph;
  std::vector<bool> inlined;
  std::vector<bool> scalar;
};
InlineResult inline_maps(TensorGraph graph, const std::vector<bool>& stored, bool by_sizes, int64_t again_cost);

}  // namespace nabla::passes
