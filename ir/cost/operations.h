// How many operations a kernel does on a CPU, as its schedule has it.
#pragma once

#include "ir/kernel_ir/kernel.h"

namespace nabla::ir {

/// On elements, at the largest sizes, in the units of kernel_ir/scalar.h: what vectors do, each as many at a time as they have lanes,
/// and what is done one element at a time. Of addresses nothing counts, nor do the products of a `contract`.
struct Operations {
  double in_lanes = 0, one_by_one = 0;
};
/// Requires a schedule for CPUs. Of a user's kernel nothing is known.
Operations operations_of(const kernel_ir::Kernel& kernel);

}  // namespace nabla::ir
