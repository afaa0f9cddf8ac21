// Branches and loops in which ranks exchange something: all ranks of a group have to go the same way.
#pragma once

#include "ir/module.h"
#include "ir/op_def.h"
#include "passes/shard/reshard.h"

namespace nabla::passes {

/// What ranks agree on before they choose a branch, or go on with a loop.
struct Agreement {
  /// The axes of the collectives in the functions that the node runs: ranks along them have to decide alike. None: they
  /// exchange nothing, or all decide alike whatever their rounding is: by integers that follow from no float.
  ir::Axes axes;
};
/// `f` is the function with layouts in which the node stands, `local` has the functions that the node runs.
Agreement agreement_of(const ir::Module& sharded, const ir::Function& f, const ir::Node& n, const ir::Module& local, const ir::Mesh& mesh);

/// The predicate or index on which the ranks agree: true if one of them has it true, the largest index that one has.
ir::Val agreed(const ir::Mesh& mesh, ir::Val predicate, const ir::Axes& axes);
/// The condition of a `while` of which ranks agree on the result, under a new name in the module.
ir::FunctionRef with_agreed_result(const ir::Function& condition, const ir::Axes& axes, ir::Module& module, const ir::OpTable& ops);

}  // namespace nabla::passes
