// Sums whose bits do not depend on how many ranks, microbatches or threads share them.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// sharded -> sharded. Does nothing without the option `deterministic`. A floating-point sum along a dimension that lies
/// along axes of the mesh, whatever their sizes, becomes one of eight equal parts each, and a tree of additions that
/// joins neighbours: ((0+1)+(2+3))+((4+5)+(6+7)). Ranks and microbatches then have whole parts of the tree, and what
/// they exchange are its nodes. E0210 where eight does not divide the dimension, the ranks and microbatches along it do
/// not divide eight, or the op has no rule by which the parts could be computed side by side.
Result<ir::Module> granulate_sums(const ir::Module& module, PassContext& context);

/// E0210 where ranks or microbatches would combine floating-point numbers in an order of their own: for local modules. A
/// remark says what is gathered instead.
Status check_deterministic(const ir::Module& local, PassContext& context);
/// Adds to errors of the loop over microbatches what a deterministic program asks of it.
void note_deterministic(Diagnostics& errors, const std::string& temporal_axis);

}  // namespace nabla::passes
