// Parts of a dimension, as a dimension of their own.
#pragma once

#include "ir/builder.h"

namespace nabla::passes {

/// Dimension `dim` as `count` equal parts, one after the other: they become dimension 0, what is left of `dim` follows
/// in its place. [.., count*k, ..] -> [count, .., k, ..]
ir::Val parts_first(ir::Val v, int64_t dim, int64_t count);
/// The reverse: dimension 0, of parts, is joined with dimension `dim` of a part.
ir::Val parts_joined(ir::Val v, int64_t dim);

}  // namespace nabla::passes
