// Positions within the whole batch, so that a loop over microbatches can slice them.
#pragma once

#include <string>

#include "ir/module.h"
#include "ir/op_def.h"

namespace nabla::passes {

/// The function with its iotas in a form that depends on the microbatch as little as possible.
/// An iota counts along one dimension: that it stands further on in another one, along which the batch is cut, changes
/// nothing, and is dropped. An iota whose parts do not follow each other as microbatches do (rows of which each is a sample
/// and a head, the heads over ranks) becomes a sum: what does not depend on the microbatch, and its number times a constant.
ir::FunctionPtr with_separable_positions(const ir::FunctionPtr& f, const ir::MeshAxis& axis, const ir::Module& module,
                                         const ir::OpTable& ops);

}  // namespace nabla::passes
