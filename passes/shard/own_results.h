// What entries write, before propagation.
#pragma once

#include "ir/module.h"
#include "ir/op_def.h"

namespace nabla::passes {

/// Returns the module in which no value stands for two state leaves, because both would have one layout. If an entry writes one value to
/// several leaves, or hands one leaf on to another, the second leaf gets a `shard` node with an open layout. For example, merging makes one
/// value of the zeros for a parameter and of those for its optimizer state.
ir::Module with_own_results(const ir::Module& flat, const ir::OpTable& ops);

}  // namespace nabla::passes
