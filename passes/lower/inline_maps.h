// Computing elementwise tensors inside their users.
#pragma once

#include "passes/lower/tensor_graph.h"

namespace nabla::passes {

/// Rewrites the formulas so that cheap maps, and maps with a single user that reads each element once, are
/// computed where they are read. `stored[t]`: t must be in memory anyway. Afterwards inlined[t] tells that nobody
/// loads t any more.
struct InlineResult {
  TensorGraph graph;
  std::vector<bool> inlined;
  std::vector<bool> scalar;
};
InlineResult inline_maps(TensorGraph graph, const std::vector<bool>& stored);

/// Arithmetic of one evaluation, in units of a simple operation; transcendental functions count 16.
int64_t cost_of(const kernel_ir::Expr& e);

}  // namespace nabla::passes
