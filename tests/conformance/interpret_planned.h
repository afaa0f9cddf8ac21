// Runs planned modules without a compiler: kernels by kernel_ir::interpret, values where the memory plan puts them.
#pragma once

#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/base/literal.h"

namespace nabla::conformance {

/// The outputs of an entry of a module at stage planned. `state` holds a literal per leaf and is updated. Operands
/// and results that share memory are one buffer to the kernel, so that a wrong plan or a wrong claim of may_share
/// shows in the values. Memory that nothing has written yet holds NaN. E0603 for an unknown entry, E0403 for a
/// library call: compile without the library.
Result<std::vector<Literal>> interpret_planned(const ir::Module& module, std::string_view entry,
                                               const std::vector<Literal>& inputs, std::vector<Literal>& state);

}  // namespace nabla::conformance
