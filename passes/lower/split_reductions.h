// Long sums with few results, on machines that want many threads.
#pragma once

#include "ir/kernel_ir/kernel.h"
#include "ir/target.h"

namespace nabla::passes {

/// On a GPU: reductions that would leave most of it idle are cut into slices, whose results stand in workspaces after
/// the kernel's other buffers, and combined in order by a second statement: the numbers depend on the target alone.
/// Other kernels stay as they are. Requires a kernel without a schedule.
void split_reductions(kernel_ir::Kernel& kernel, const ir::Target& target);

}  // namespace nabla::passes
