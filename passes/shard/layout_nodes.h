// Nodes that say how values are laid out, and compute nothing.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// Is the node an identity: each result the operand at its place?
bool is_about_layouts(const ir::Node& n);
/// The module at stage local, where leaves have no layouts any more.
ir::Module without_layouts(const ir::Module& module);
/// The function without such nodes, and without the borders of manual regions.
ir::FunctionPtr without_shard_nodes(const ir::FunctionPtr& f, const ir::Module& m, const ir::OpTable& ops);

}  // namespace nabla::passes
