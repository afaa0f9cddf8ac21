// Found layouts, written into a module.
#pragma once

#include "passes/auto_shard/search.h"

namespace nabla::passes {

/// The module with them: on leaves, inputs and all values of which it says nothing. Where a value changes its
/// layout between what must agree (a parameter on its way into a loop, a value on its way into the state), it gets a `shard` node.
/// `graph` is of this module. With microbatches `in_time` is the module laid out along their axis alone, which cuts values after
/// the axes of ranks; null: there are none. Where the batch would not lie alike in all values, only leaves and inputs are laid out,
/// and propagation does the rest.
ir::Module annotated(const ir::Module& module, const ProgramGraph& graph, const FoundLayouts& found, const ir::Module* in_time,
                     const ir::OpTable& ops);

}  // namespace nabla::passes
