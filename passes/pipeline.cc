#include "passes/pipeline.h"

#include <vector>

namespace nabla::passes {

std::span<const PipelineStep> default_pipeline() {
  static const std::vector<PipelineStep> steps = {
      {"lower-transforms",
       "first: rules see the program as the user wrote it, composites whole and types still bound "
       "to functions"},
      {"inline-calls", "derived functions are cut at calls; only their bodies side by side show what they share"},
      {"eliminate-dead-code",
       "gradients that nobody asked for and residuals of unused pullbacks go before any work is "
       "spent on them"},
      {"expand-composites", "after every rule that treats composites as a whole, before simplification"},
      {"canonicalize",
       "brings what the rules of derivatives produced into the forms that folding and merging look for"},
      {"fold-constants", "after canonicalize, which gathers the constants under scalars"},
      {"simplify-loops",
       "after folding, which leaves in bodies what depends on operands; before the rules and merging, which then see "
       "beside its surroundings what left a body"},
      {"canonicalize", "folded constants make further rules apply: x * (2 - 1)"},
      {"merge-common-subexpressions",
       "forward and backward compute the same values; equal nodes are equal in form only "
       "now"},
      {"eliminate-dead-code", "folding and merging leave producers without users"},
      {"prepare", "after simplification, which drops copies and joins reshapes; the report counts nodes from here on"},
      {"fuse", "once the graph is as small as it gets; nothing after it knows ops"},
      {"recompute", "on kernels: only now is it known what is stored; plan-memory then places what is left"},
      {"plan-memory", "last: lifetimes follow from the final order of kernels"},
  };
  return steps;
}

}  // namespace nabla::passes
