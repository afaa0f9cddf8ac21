// Parts of a dimension, as a dimension of their own.
#pragma once

#include <optional>
#include <vector>

#include "ir/builder.h"
#include "runtime/base/literal.h"

namespace nabla::passes {

/// Dimension `dim` as `count` equal parts, one after the other: they become dimension 0, what is left of `dim` follows
/// in its place. [.., count*k, ..] -> [count, .., k, ..]
ir::Val parts_first(ir::Val v, int64_t dim, int64_t count);
/// The reverse: dimension 0, of parts, is joined with dimension `dim` of a part.
ir::Val parts_joined(ir::Val v, int64_t dim);

/// E0402 where `n` needs more than `most` bytes of one of f's values on every rank; `why` follows the op's name.
std::optional<Diagnostic> check_gathered(const ir::Function& f, const ir::Node& n, ir::ValueId id, const std::string& why,
                                         int64_t most);
/// One value for all elements, in another shape; nothing where the elements differ, or where there are none.
std::optional<Literal> uniform(const Literal& value, const std::vector<int64_t>& shape);

}  // namespace nabla::passes
