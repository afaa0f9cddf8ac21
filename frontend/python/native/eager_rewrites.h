// Ops on large arrays in terms of others that have kernels, for values that are computed without a compiler.
#pragma once

#include <optional>

#include "ir/module.h"
#include "ir/op_def.h"

namespace nabla::python {

/// What the node does to its operands, as a flat function: composites by their decomposition; products of any layout,
/// reductions over scattered dimensions and softmax of any dimension by transposing; convolutions of one group and
/// their gradients as products of patches. Nullopt for everything else. Types are static, and no array is empty.
std::optional<ir::Function> rewritten(const ir::Module& module, const ir::TypedOp& op);

}  // namespace nabla::python
