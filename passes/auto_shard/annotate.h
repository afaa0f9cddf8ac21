// Found layouts, written into a module.
#pragma once

#include "passes/auto_shard/search.h"

namespace nabla::passes {

/// The module with them: on leaves, inputs and all values of which it says nothing. Where a value changes its layout between
/// what must agree (a parameter on its way into a loop, a value on its way into the state), it gets a `shard` node. With
/// microbatches only leaves and inputs are laid out: propagation takes their axis along with others. `graph` is of this module.
ir::Module annotated(const ir::Module& module, const ProgramGraph& graph, const FoundLayouts& found, const ir::OpTable& ops);

}  // namespace nabla::passes
