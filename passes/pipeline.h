// The default order of the passes.
#pragma once

#include <span>
#include <string>

#include "ir/module.h"

namespace nabla::passes {

struct PipelineStep {
  std::string pass;
  std::string reason;  ///< why here
};

/// What `nablac compile` runs, in order. A pass may occur more than once.
std::span<const PipelineStep> default_pipeline();

/// What holds of modules at a stage, and the passes to come that make or need it.
struct StageOfPipeline {
  ir::Stage stage;
  std::string what;
};

/// Every stage, in order. Passes that need the whole program stand before `local` in the pipeline, those that need one
/// rank's after it; the manager refuses any other order.
std::span<const StageOfPipeline> stages_of_pipeline();

}  // namespace nabla::passes
