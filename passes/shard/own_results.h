// What entries write, before propagation.
#pragma once

#include "ir/module.h"
#include "ir/op_def.h"

namespace nabla::passes {

/// The module in which no value stands for two state leaves: where an entry writes one value to several, or hands one leaf
/// on to another, the second gets a `shard` node that says nothing. Else both would have one layout (zeros, which merging
/// made one, for a parameter and for what the optimizer remembers of it).
ir::Module with_own_results(const ir::Module& flat, const ir::OpTable& ops);

}  // namespace nabla::passes
