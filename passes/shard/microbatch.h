// Loops over a temporal axis of the mesh.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// What one microbatch computes, made a loop over all of them. `local` is the module after partition, for which the
/// temporal axis of `sharded`'s mesh was one like others. Parameters and results of entries, and of functions that nobody
/// runs, become those of all microbatches. What depends on the axis runs in one scan. Sums over the axis are its carries,
/// which begin with the neutral element, in f32 where they are narrower; what is gathered over the axis is stacked. What
/// does not depend on it is computed once, before the scan; what depends on the scan's results after it. Iotas and
/// random numbers along the axis are made for all microbatches before it, so that a draw does not depend on their
/// number. What a microbatch needs of all of them is summed in a loop before if it follows from inputs alone (the count of a
/// masked mean). Else it is E0210 (a mean over the batch that is subtracted again), as where a branch or a loop communicates
/// over the axis: such ops are not separable. The mesh loses the axis.
Status add_microbatch_loops(const ir::Module& sharded, GradSync exchange, ir::Module& local, const ir::OpTable& ops);

/// The module whose mesh has no temporal axis, and whose layouts are those of the ranks alone. A mesh without any other
/// axis goes.
ir::Module without_temporal_axes(const ir::Module& module);

}  // namespace nabla::passes
