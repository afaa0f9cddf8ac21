// How kernels run on their target.
#pragma once

#include "ir/kernel_ir/kernel.h"
#include "passes/pass.h"

namespace nabla::passes {

/// kernels -> kernels. Every kernel without a schedule gets one from the facts of the target: units of work, a bound of
/// threads and the axis of vector lanes for a CPU, grids for a GPU. On GPUs long reductions and scatters into few rows are
/// cut before that; what kernels need as workspaces for it becomes results of their launches, or scratch memory of the
/// library calls whose fallbacks they are. Kernels that are equal afterwards are one. E0403 as of schedule_cuda.
Result<ir::Module> schedule_kernels(const ir::Module& module, PassContext& context);

// Its parts, in the order in which they run on a kernel.

/// Merges axes that always run through memory together, so that elementwise kernels become one flat loop. Reduced axes of
/// deterministic programs stay as they are.
void merge_axes(kernel_ir::Kernel& kernel, const ir::Target& target);

/// On a GPU: reductions that would leave most of it idle are cut into slices, whose results stand in workspaces after
/// the kernel's other buffers, and combined in order by a second statement: the numbers depend on the target alone.
/// Other kernels stay as they are. Requires a kernel without a schedule.
void split_reductions(kernel_ir::Kernel& kernel, const ir::Target& target);

/// On a GPU: a matrix product with so few tiles that they leave much of it idle, and a long sum, is cut along the sum into
/// slices, whose results stand in a workspace after the kernel's other buffers; a second statement adds them in order, and
/// does what follows the product. How many there are depends on the target and the sizes' upper bounds alone. Other kernels
/// stay as they are. Requires a kernel without a schedule.
void split_products(kernel_ir::Kernel& kernel, const ir::Target& target);

/// On a GPU: a loop of nothing but a combining store of floats, whose many updates meet at few looked-up rows, is cut
/// into slices of updates, each with sums of its own in a workspace after the kernel's other buffers (f32 where the
/// result is narrower), which a further statement combines in order: the numbers depend on the target alone. Other
/// kernels stay as they are. Requires a kernel without a schedule.
void split_scatters(kernel_ir::Kernel& kernel, const ir::Target& target);

/// For a CPU: where what a loop stores depends on where along its last axis it is, as of a concatenate, every part gets a store of
/// its own, which compares nothing and loads in lanes. Short parts stay together, and so does what may be an
/// update in place. Every element is computed as before.
void split_joins(kernel_ir::Kernel& kernel, const ir::Target& target);

/// For a CPU: the vector axis, units and a bound of threads, from the target's facts. A procedure's template is chosen,
/// and the workspaces are added that it needs.
void schedule_cpu(kernel_ir::Kernel& kernel, const ir::Target& target);

/// For a GPU: the kernel as one grid per statement of its body, as a product, or as one block where it cannot be cut.
/// The iterations of a statement are shared out to teams: a thread, a warp or a block, which then shares out what the
/// iteration does along its own axes. Iterations that meet at one place are walked in order by one team, so that results
/// do not depend on the grid; integers, where order does not matter, are combined by atomics. A procedure becomes the
/// grids of its template, and the workspaces are added that it needs. E0403 when one iteration keeps more than a block's
/// shared memory.
Status schedule_cuda(kernel_ir::Kernel& kernel, const ir::Target& target);

}  // namespace nabla::passes
