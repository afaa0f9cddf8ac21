// How long a GPU's kernel is expected to take: by the sectors that it moves, the instructions that its warps issue, its products and
// the latency of memory, whichever takes longest, and its launch.
#pragma once

#include <vector>

#include "codegen/cuda/cubin.h"
#include "ir/cost/grid_work.h"
#include "ir/target.h"

namespace nabla::codegen {

using ir::GridPrediction;

/// How often warps run through each loop of the code, as KernelCode::loops, all of `warps` together. Loops are found again in what the
/// schedule says by the bytes that they read and write, or by their products; copies of a loop for addresses that are no multiples
/// of 16, and for what unrolling leaves over, count as never run.
std::vector<double> runs_of(const KernelCode& code, const ir::GridWork& work, double warps);

/// `code` is what the grid was compiled to; null: not known, as of PTX.
GridPrediction predict_grid(const kernel_ir::Kernel& kernel, size_t grid, const ir::Target& target, const CubinKernel* code);

}  // namespace nabla::codegen
