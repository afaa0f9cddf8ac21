// Loops over a temporal axis of the mesh.
#pragma once

#include <map>

#include "passes/pass.h"

namespace nabla::passes {

/// An entry's function after partition, for which the temporal axis was one like others.
struct OneMicrobatch {
  const ir::Function& f;
  ir::MeshAxis axis;
  std::map<size_t, int> cut;      ///< parameters that are parts along the axis, and the dimension that it cuts
  std::map<size_t, int> stacked;  ///< the same of results
};

/// What one microbatch computes, made a loop over all of them: parameters and results are those of all. What depends on
/// the axis runs in one scan. Sums over the axis are its carries, which begin with the neutral element, in f32 where
/// they are narrower; what is gathered over the axis is stacked. What does not depend on it is computed once, before
/// the scan; what depends on the scan's results after it. Iotas and random numbers along the axis are made for all
/// microbatches before it, so that a draw does not depend on their number. E0210 where a microbatch needs what follows
/// from all of them (a mean over the batch that is subtracted again): such an op is not separable. The body becomes a
/// function of `module`.
Result<ir::FunctionPtr> loop_over_microbatches(const OneMicrobatch& one, ir::Module& module, const ir::OpTable& ops);

/// E0210 where the function, which a branch or a loop runs, communicates over the axis or asks for its coordinate.
Status check_separable(const ir::Function& f, const ir::MeshAxis& axis);

/// The module whose mesh has no temporal axis, and whose layouts are those of the ranks alone. A mesh without any other
/// axis goes.
ir::Module without_temporal_axes(const ir::Module& module);

}  // namespace nabla::passes
