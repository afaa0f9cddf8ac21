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

BuiltKernel build_kernel(const FusionPlan& plan, int group);

/// The kernel of a procedure on these types: operands, results, then scratch memory where it needs some. Scheduled.
kernel_ir::Kernel build_procedure(const kernel_ir::Procedure& procedure, const std::vector<ir::Type>& operands,
                                  const std::vector<ir::Type>& results, const std::string& name,
                                  const ir::Target& target);

/// Merges axes that always run through memory together, so that elementwise kernels become one flat loop.
void merge_axes(kernel_ir::Kernel& kernel);

/// Chooses vector axis, units and thread bound from the target's facts.
void schedule_kernel(kernel_ir::Kernel& kernel, const ir::Target& target);

}  // namespace nabla::passes
