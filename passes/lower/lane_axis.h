// Which axis of a kernel runs fastest through memory for the whole body.
#pragma once

#include "ir/kernel_ir/kernel.h"
#include "ir/target.h"

namespace nabla::passes {

/// The axis of the kernel's only loop whose neighbours go to the lanes of a vector, or to neighbouring threads of a
/// GPU; -1: each statement's innermost own axis. Products, kernels of several loops, and those whose stores meet have
/// none.
int lane_axis(const kernel_ir::Kernel& kernel, const ir::Target& target);
/// The same of one of several loops; none where its stores meet.
int lane_axis(const kernel_ir::Kernel& kernel, const kernel_ir::For& loop, const ir::Target& target);
/// Lanes of the target's vectors for the kernel's dtypes.
int lanes_of(const kernel_ir::Kernel& kernel, const ir::Target& target);
/// The only loop of the kernel's body, if its iterations neither meet nor run in order; nullptr otherwise.
const kernel_ir::For* independent_loop(const kernel_ir::Kernel& kernel);

}  // namespace nabla::passes
