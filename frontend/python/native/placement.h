// Layouts over meshes of ranks, beside Python's tensors.
#pragma once

#include <memory>

#include "ir/module.h"

namespace nabla::python {

/// How a tensor is laid out over the ranks of a mesh. Its elements are those of the whole.
struct Placement {
  ir::Mesh mesh;
  ir::ShardingRef sharding;
};
using PlacementRef = std::shared_ptr<const Placement>;

}  // namespace nabla::python
