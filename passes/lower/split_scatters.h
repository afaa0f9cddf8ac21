// Many updates of few rows, on machines that want many threads.
#pragma once

#include "ir/kernel_ir/kernel.h"
#include "ir/target.h"

namespace nabla::passes {

/// On a GPU: a loop of nothing but a combining store of floats, whose many updates meet at few looked-up rows, is cut
/// into slices of updates, each with sums of its own in a workspace after the kernel's other buffers (f32 where the
/// result is narrower), which a further statement combines in order: the numbers depend on the target alone. Other
/// kernels stay as they are. Requires a kernel without a schedule.
void split_scatters(kernel_ir::Kernel& kernel, const ir::Target& target);

}  // namespace nabla::passes
