// What branches and loops pass to their functions, and get back.
#pragma once

#include <utility>
#include <vector>

#include "ir/module.h"

namespace nabla::ir {

/// A value of a function, without its first `skip` dimensions.
struct TiedValue {
  const Function* function;
  ValueId value;
  int skip = 0;
};
/// Returns the pairs of values whose dimensions must agree because a node of control flow makes one of the other: operands and
/// parameters, results of its functions and its own results, carries in and out. Sliced or stacked values agree except for their first
/// dimension.
std::vector<std::pair<TiedValue, TiedValue>> control_ties(const Module& module, const Function& f, const Node& node);

}  // namespace nabla::ir
