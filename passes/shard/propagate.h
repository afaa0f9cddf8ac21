// How every value is laid out over the mesh.
#pragma once

#include <functional>
#include <string>
#include <vector>

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

/// Why a dimension of a value has its axes.
struct DimExplanation {
  std::string heading;             ///< "dimension 0 (8): along {dp}"
  std::vector<std::string> steps;  ///< the ops through which the axes came, from the value back, and the axes that were refused on the way
  std::string said_by;             ///< whose layout it follows: "state leaf w"; empty: nobody's
  int said_dim = 0;                ///< the dimension of that layout
};
struct LayoutExplanation {
  std::string heading;  ///< "%h f32[8,4] in @step"
  std::vector<DimExplanation> dims;
};
/// Explains how propagation chose the layout of a value ("%h", "h") of a function of a flat module. E0107 for unknown names, and the
/// errors of propagate.
Result<LayoutExplanation> explain_layout(const ir::Module& module, const std::string& function, const std::string& value,
                                         PassContext& context);
/// The explanation as text. If `said` is given, its result is printed in place of `said_by`.
std::string print(const LayoutExplanation& explanation, const std::function<std::string(const DimExplanation&)>& said = {});

}  // namespace nabla::passes
