// Collectives as every engine of communication has them.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// Collectives of a group of one rank become what they are: their operand. A mean becomes a sum and a division, `vary`
/// its operand, axis_index an expression over the rank's coordinates. Parts that are joined or cut along another
/// dimension than the first are brought there by transpositions, which fuse with what is around: in memory the parts of
/// ranks lie one after the other.
Result<ir::Module> lower_collectives(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
