// Pieces that are cut only to be put together again, along a dimension that ranks share: the pieces need not divide.
#pragma once

#include <memory>

#include "passes/pass.h"

namespace nabla::passes {

/// The module without them; null: there are none. `sharded` is `flat` with the layouts of its values. Where the
/// dimension of x has a layout,
///   a pad of a slice of x that keeps an end of x at an end of the result is one pad of x;
///   the concatenation of the end and the beginning of x (numpy's roll, and its gradient's) is chosen from two pads.
std::shared_ptr<const ir::Module> merge_cuts(const ir::Module& flat, const ir::Module& sharded, PassContext& context);

}  // namespace nabla::passes
