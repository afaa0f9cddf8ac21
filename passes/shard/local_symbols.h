// Symbolic sizes of what one rank has.
#pragma once

#include "ir/module.h"

namespace nabla::passes {

/// A symbol whose extents are sharded, k ways in all, becomes k times a symbol NAME.local of the part: then every extent
/// of a part is a polynomial again. Requires that k divides the symbol's `multiple`, as propagation sees to.
ir::Module with_local_symbols(const ir::Module& sharded);

}  // namespace nabla::passes
