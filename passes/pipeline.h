// The default order of the passes.
#pragma once

#include <span>
#include <string>

namespace nabla::passes {

struct PipelineStep {
  std::string pass;
  std::string reason;  ///< why here
};

/// What `nablac compile` runs, in order. A pass may occur more than once.
std::span<const PipelineStep> default_pipeline();

}  // namespace nabla::passes
