// What reverse mode keeps between the way there and the way back.
#pragma once

#include <vector>

#include "ir/module.h"

namespace nabla::passes {

/// The way there of a function that holds both directions: its first `nodes` nodes.
struct ForwardPart {
  const ir::Function& f;
  size_t nodes;
  std::vector<bool> params;  ///< per value: a parameter of the way there
  std::vector<bool> fixed;   ///< per value: depends on no parameter, and is made again wherever it is used
};

/// The values to keep so that all of `needed` (per value) can be had on the way back: fewest bytes, where elementwise
/// ops and movements may be computed again and everything else may not. Among equals, parameters,
/// then those that leave the least to compute again. A minimum cut, as in He and Yu, "Transcending runtime-memory
/// tradeoffs in checkpointing by being fusion aware", 2023.
std::vector<ir::ValueId> choose_residuals(const ForwardPart& forward, const std::vector<bool>& needed);

}  // namespace nabla::passes
