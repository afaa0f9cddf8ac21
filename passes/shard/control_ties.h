// What branches and loops hand on to their functions, and get back.
#pragma once

#include <utility>
#include <vector>

#include "ir/module.h"

namespace nabla::passes {

/// A value of a function, without its first `skip` dimensions.
struct TiedValue {
  const ir::Function* function;
  ir::ValueId value;
  int skip = 0;
};
/// Values that have to agree in all dimensions, since a node of control flow makes one of the other: operands and parameters,
/// results of its functions and its own, carries in and out. What is cut into slices, or stacked, agrees but for its
/// first dimension.
std::vector<std::pair<TiedValue, TiedValue>> control_ties(const ir::Module& module, const ir::Function& f, const ir::Node& node);

}  // namespace nabla::passes
