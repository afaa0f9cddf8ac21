// Launches of kernels, which the passes of this folder make.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/kernel_ir/kernel.h"
#include "ir/module.h"

namespace nabla::passes {

/// The attributes of a launch with these results; its record wants symbolic sizes apart.
ir::Attrs launch_attrs(const std::string& kernel, const std::vector<ir::Type>& results);

/// Kernels that differ in more than their names and those of their buffers.
class DistinctKernels {
 public:
  /// The first of those that were added and are equal to this one: itself, if there was none.
  kernel_ir::KernelPtr find_or_add(const kernel_ir::KernelPtr& kernel);

 private:
  std::map<std::string, kernel_ir::KernelPtr> first_;  // by text without names
};

}  // namespace nabla::passes
