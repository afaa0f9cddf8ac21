// The quickest steps from one layout to another: a shortest path.
#pragma once

#include <optional>

#include "ir/target.h"
#include "passes/shard/reshard.h"

namespace nabla::passes {

/// Microseconds that the steps take on ranks of this target, without one over links of a data sheet, of a value of this whole type
/// in the first layout.
double steps_us(const ir::Mesh& mesh, const ir::Type& type, const Layout& from, const std::vector<ReshardStep>& steps,
                const ir::Target& target = {});

/// Steps that take less time than `most_us`, the least of all that were looked at; nothing where none were found. Requires
/// that the layouts differ along no temporal axis, and that nothing is pending in `to`.
std::optional<std::vector<ReshardStep>> quickest_steps(const ir::Mesh& mesh, const ir::Type& type, const Layout& from,
                                                       const Layout& to, double most_us);

}  // namespace nabla::passes
