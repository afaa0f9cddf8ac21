// Walks an entry of a planned module without a compiler and without the runtime: values lie where the memory plan puts
// them, and the caller runs the kernels.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/base/literal.h"

namespace nabla::conformance {

/// Values of the module's symbols, by name.
using Sizes = std::map<std::string, int64_t>;

/// A buffer of a launch. Operands and results that share memory have one address.
struct PlacedBuffer {
  char* at;
  std::vector<int64_t> extents;
  int64_t bytes;
  bool result;  ///< else an operand
};
/// Runs kernel `index` of Module::kernels on its buffers, in their order; results are written at their places.
using LaunchKernel = std::function<void(size_t index, const std::vector<PlacedBuffer>& buffers)>;

/// The outputs of an entry of a module at stage planned, whose nodes are launches, views and constants. `state` holds a
/// literal per leaf and is updated. Memory that nothing has written yet holds 0xff, NaN in every format. E0603 for an
/// unknown entry, E0403 for a node that is no launch, such as a library call or a loop.
Result<std::vector<Literal>> run_planned(const ir::Module& module, std::string_view entry,
                                         const std::vector<Literal>& inputs, std::vector<Literal>& state,
                                         const Sizes& sizes, const LaunchKernel& launch);

}  // namespace nabla::conformance
