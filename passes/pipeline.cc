#include "passes/pipeline.h"

#include <vector>

namespace nabla::passes {

using ir::Stage;

std::span<const StageOfPipeline> stages_of_pipeline() {
  static const std::vector<StageOfPipeline> stages = {
      {Stage::kTraced, "the program as it was written, with transforms as calls"},
      {Stage::kFlat, "all derivatives are there; sizes are those of the whole program, composites are whole"},
      {Stage::kStaged, "the same, cut into stages of a pipeline. No pass comes here yet: stage cut will make it"},
      {Stage::kSharded, "the same, with a layout on every value. Propagation makes it, partition ends it"},
      {Stage::kLocal,
       "what one rank computes, of its own sizes, for one target; collectives stand in it. Partition makes it"},
      {Stage::kScheduled, "the same, with the order of units of work. No pass comes here yet"},
      {Stage::kKernels, "kernels, calls of libraries and views"},
      {Stage::kPlanned, "the same, and where every value lives"},
  };
  return stages;
}

std::span<const PipelineStep> default_pipeline() {
  static const std::vector<PipelineStep> steps = {
      {"apply-strategy", "first: gradients are calls still, which tell parameters and the optimizer's state from other leaves"},
      {"lower-transforms",
       "before simplification: rules see the program as the user wrote it, composites whole and types still bound "
       "to functions"},
      {"inline-calls", "derived functions are cut at calls; only their bodies side by side show what they share"},
      {"eliminate-dead-code",
       "gradients that nobody asked for and residuals of unused pullbacks go before any work is "
       "spent on them"},
      {"canonicalize",
       "brings what the rules of derivatives produced into the forms that folding and merging look for"},
      {"fold-constants", "after canonicalize, which gathers the constants under scalars"},
      {"simplify-loops",
       "after folding, which leaves in bodies what depends on operands; before merging, which then sees beside its "
       "surroundings what left a body"},
      {"merge-common-subexpressions",
       "forward and backward compute the same values, composites among them, which are written out once then"},
      {"eliminate-dead-code", "nothing is sharded or written out that nobody uses"},
      {"pad-shards", "of the same program; what is masked is known before anything is laid out by it"},
      {"auto-shard", "right before propagate, which completes what it lays out: the whole graph with its gradients is there"},
      {"propagate", "on as few nodes as there can be, with composites whole and derivatives in place"},
      {"granulate-sums", "when it is known which sums ranks share, and while they are whole"},
      {"partition", "after propagate; what follows is one rank's"},
      {"create-reduce-scatters", "while the cut of a sum stands right beside it"},
      {"hoist-collectives", "before equal nodes are merged: what leaves a loop may be there already"},
      {"merge-common-subexpressions", "partition gathers and cuts for every reader anew"},
      {"regather",
       "after the merge, which knows what is read early and late; before lower-collectives hides gathers "
       "behind transpositions"},
      {"expand-composites", "after all passes that shard, which see composites whole"},
      {"lower-collectives", "before simplification, which joins its transpositions with what is around"},
      {"order-keys", "when it is settled what ranks exchange; simplification joins the conversions with what is around"},
      {"canonicalize", "brings decompositions into the same forms"},
      {"fold-constants", "decompositions compute from shapes what is known now"},
      {"simplify-loops", "of a composite in a loop a part may be computed once"},
      {"canonicalize", "folded constants make further rules apply: x * (2 - 1)"},
      {"merge-common-subexpressions", "the way back writes out what the way forward computed; equal in form only now"},
      {"eliminate-dead-code", "folding and merging leave producers without users"},
      {"bucket-collectives", "when it is settled which collectives are left"},
      {"specialise", "once the graph is as small as it gets, so that nothing is simplified once more for every size"},
      {"prepare", "after simplification, which drops copies and joins reshapes; the report counts nodes from here on"},
      {"choose-libraries", "after prepare, which brings products into the libraries' form; what is left is fused"},
      {"fuse", "once the graph is as small as it gets; nothing after it knows ops"},
      {"schedule-kernels", "after fuse: what is computed is settled, and what workspaces it needs becomes known"},
      {"stream-host-state", "on kernels, which are those of a program without such state; copies are temporaries for what follows"},
      {"recompute", "on kernels: only now is it known what is stored; plan-memory then places what is left"},
      {"schedule-collectives", "when the order of kernels is settled but for the moves that memory admits"},
      {"plan-memory", "last: lifetimes follow from the final order of kernels"},
  };
  return steps;
}

}  // namespace nabla::passes
