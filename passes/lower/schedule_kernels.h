// How kernels run on their target.
#pragma once

#include "ir/kernel_ir/kernel.h"
#include "passes/pass.h"

namespace nabla::passes {

/// kernels -> kernels. Every kernel without a schedule gets one from the facts of the target: units of work, a bound of
/// threads, the axis of vector lanes. On GPUs long reductions and scatters into few rows are cut before that; what
/// kernels need as workspaces for it becomes results of their launches, or scratch memory of the library calls whose
/// fallbacks they are. Kernels that are equal afterwards are one.
Result<ir::Module> schedule_kernels(const ir::Module& module, PassContext& context);

// Its parts, in the order in which they run on a kernel.

/// Merges axes that always run through memory together, so that elementwise kernels become one flat loop.
void merge_axes(kernel_ir::Kernel& kernel);

/// On a GPU: reductions that would leave most of it idle are cut into slices, whose results stand in workspaces after
/// the kernel's other buffers, and combined in order by a second statement: the numbers depend on the target alone.
/// Other kernels stay as they are. Requires a kernel without a schedule.
void split_reductions(kernel_ir::Kernel& kernel, const ir::Target& target);

/// On a GPU: a loop of nothing but a combining store of floats, whose many updates meet at few looked-up rows, is cut
/// into slices of updates, each with sums of its own in a workspace after the kernel's other buffers (f32 where the
/// result is narrower), which a further statement combines in order: the numbers depend on the target alone. Other
/// kernels stay as they are. Requires a kernel without a schedule.
void split_scatters(kernel_ir::Kernel& kernel, const ir::Target& target);

/// Chooses vector axis, units and thread bound from the target's facts.
void schedule_kernel(kernel_ir::Kernel& kernel, const ir::Target& target);

/// The same for a procedure: who runs its rows. Adds the workspaces that it needs.
void schedule_procedure(kernel_ir::Kernel& kernel, const ir::Target& target);

}  // namespace nabla::passes
