// Composites that ranks can share only in parts.
#pragma once

#include <functional>

#include "ir/module.h"
#include "passes/pass.h"

namespace nabla::passes {

/// The maximum nesting depth of composites inside decompositions of composites.
inline constexpr int kMostCompositeLevels = 4;

/// The module with those of the `wanted` composites (by function) written out, all parts of which can be split, in no more
/// than twice the memory of their operands and results. Null: there are none.
std::shared_ptr<const ir::Module> with_open_composites(const ir::Module& flat,
                                                       const std::function<bool(size_t, const ir::Node&)>& wanted,
                                                       PassContext& context);
/// `flat` with those composites replaced by their decompositions which `sharded`, the same module after propagation,
/// lays out along a dimension that they cannot be split along, where their parts can: a softmax over a sharded axis
/// becomes a maximum and a sum over ranks. A decomposition that holds larger arrays than the composite (attention's
/// scores) stays closed. Null: there are none.
std::shared_ptr<const ir::Module> open_composites(const ir::Module& flat, const ir::Module& sharded,
                                                  PassContext& context);

}  // namespace nabla::passes
