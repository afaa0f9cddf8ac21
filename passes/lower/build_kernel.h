// A fusion group as a kernel of kernel_ir.
#pragma once

#include "ir/kernel_ir/kernel.h"
#include "ir/target.h"
#include "passes/lower/fusion.h"

namespace nabla::passes {

struct BuiltKernel {
  kernel_ir::Kernel kernel;   ///< buffers: operands, then results
  std::vector<int> operands;  ///< tensors (views keep their own number)
  std::vector<int> results;   ///< tensors
};

/// Without a schedule.
BuiltKernel build_kernel(const FusionPlan& plan, int group);

}  // namespace nabla::passes
