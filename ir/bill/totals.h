// What functions compute and move, together with what their loops and branches run.
#pragma once

#include "ir/module.h"

namespace nabla::ir {

/// Floating-point operations of a run. A loop counts all iterations, a branch its costlier side, and a while one iteration.
struct FunctionWork {
  Dim flops = 0;
  bool at_least = false;  ///< there is a while inside, or the sum exceeds 2^63 - 1, at which it stops
};
FunctionWork work_of(const Function& f, const Module& module);
/// FLOPs that a planned function computes a second time because `--remat-bytes` drops values. They belong to every instruction after
/// the first that computes the same nodes by the same kernel. `flat` has the nodes.
Dim flops_again(const Function& f, const Module& planned, const Module& flat);
/// Bytes that the instructions of a planned function read and write, summed over loops and branches like FLOPs.
Dim moved_by(const Function& f, const Module& planned);

}  // namespace nabla::ir
