// Axes that passes add to kernels.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "ir/kernel_ir/kernel.h"

namespace nabla::passes {

/// Adds an axis and returns its number. Where an axis has the name already, a number after it makes it another's.
inline int add_named_axis(kernel_ir::Kernel& kernel, const std::string& name, ir::Dim extent) {
  std::string free = name;
  auto taken = [&](const kernel_ir::Axis& a) { return a.name == free; };
  for (int i = 2; std::any_of(kernel.axes.begin(), kernel.axes.end(), taken); ++i) free = name + std::to_string(i);
  kernel.axes.push_back({free, std::move(extent)});
  return static_cast<int>(kernel.axes.size()) - 1;
}

}  // namespace nabla::passes
