// How every value is laid out over the mesh.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// flat -> sharded. From the layouts of parameters and state leaves and from `shard` nodes to all values, forward and
/// backward, by the factors of the ops; through the bodies of loops and branches. Closed dimensions stay. Where two
/// layouts meet that cannot both hold, the one of the larger tensor wins, which a remark says: the other is laid out
/// anew in front of the op.
Result<ir::Module> propagate(const ir::Module& module, PassContext& context);

/// The same module with the layouts that propagation gives its values; unlike propagate it changes no node, so that values stay
/// those of the module. Its remarks are not kept.
Result<ir::Module> propagated_layouts(const ir::Module& module, PassContext& context);

/// Why propagation lays a value ("%h", "h") of a function of a flat module out as it does: by dimension the ops through
/// which its axes came, back to what the user said, and the axes that it did not get. E0107 for unknown names, and the
/// errors of propagate.
Result<std::string> explain_layout(const ir::Module& module, const std::string& function, const std::string& value,
                                   PassContext& context);

}  // namespace nabla::passes
