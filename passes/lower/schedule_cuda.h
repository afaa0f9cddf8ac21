// How kernels are cut into grids for a GPU: the parts of schedule_cuda.
#pragma once

#include <optional>
#include <vector>

#include "ir/kernel_ir/kernel.h"
#include "ir/kernel_ir/product.h"
#include "ir/target.h"

namespace nabla::passes {

constexpr int kBlockThreads = 256;
constexpr int kSystemShared = 1 << 10;    ///< bytes of shared memory that every block takes beside its own
constexpr int64_t kMostBlocks = 1 << 20;  ///< where more would only walk the work in longer strides

/// Enough blocks for every team to have one iteration, but no more than keep the GPU full some times over.
ir::Dim blocks_for(const ir::Dim& teams, int team, int threads, const ir::Target& target);
/// So many blocks, at least one and at most kMostBlocks.
ir::Dim block_count(const ir::Dim& blocks);

/// Does the chip have wgmma, the products of warpgroups?
bool has_warpgroups(const ir::Target& target);

/// The grid of a kernel that is a matrix product, or a sum over windows for which tiles pay; nullopt for others.
std::optional<kernel_ir::Grid> product_grid(const kernel_ir::Kernel& kernel, const ir::Target& target);
/// The grids of a procedure's template. Adds the workspaces that it needs.
kernel_ir::CudaSchedule schedule_template(kernel_ir::Kernel& kernel, const ir::Target& target);

}  // namespace nabla::passes
