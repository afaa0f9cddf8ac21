// Every pass there is, a row each: name, one line, documentation, stages, options, function.
#include <algorithm>

#include "passes/auto_shard/auto_shard.h"
#include "passes/collective/collectives.h"
#include "passes/lower/choose_libraries.h"
#include "passes/lower/fuse.h"
#include "passes/lower/plan_memory.h"
#include "passes/lower/prepare.h"
#include "passes/lower/recompute.h"
#include "passes/lower/schedule_collectives.h"
#include "passes/lower/schedule_kernels.h"
#include "passes/lower/specialise.h"
#include "passes/lower/stream_host_state.h"
#include "passes/pass.h"
#include "passes/shard/granulate_sums.h"
#include "passes/shard/lower_collectives.h"
#include "passes/shard/pad_shards.h"
#include "passes/shard/partition.h"
#include "passes/shard/propagate.h"
#include "passes/simplify/simplify.h"
#include "passes/strategy/apply_strategy.h"
#include "passes/transform/expand_composites.h"
#include "passes/transform/inline_calls.h"
#include "passes/transform/lower_transforms.h"

namespace nabla::passes {

using ir::Stage;

namespace {

std::vector<Pass> transform_passes() {
  return {
      {"apply-strategy",
       "lays out batches, parameters and the optimizer's state as data parallelism and ZeRO do",
       "Leaves of the state whose names match a rule of `layouts` lie as it says, the first that matches; what the optimizer "
       "remembers of a leaf that is laid out lies as that does. Without data axes that is all. Inputs of which the program "
       "says nothing are cut along them in their first dimension, "
       "where the parts divide it. Leaves of the state with respect to which an entry differentiates are parameters, those whose "
       "new values follow from gradients are the optimizer's: with zero=1 and 2 ranks along the zero axes share the "
       "latter, with zero=3 both, each cut along its first dimension that no axis cuts and that they divide, else along one "
       "that is cut already; what neither fits stays whole, which a remark says. What is not shared is kept the same on all "
       "ranks along the data axes. Layouts that the program states stay. With `offload` leaves live in the host's memory, of "
       "programs for GPUs. Runs first: later there are no gradients, "
       "only what they became.",
       Stage::kTraced,
       Stage::kTraced,
       options_of(&PassOptions::apply_strategy,
                  {shared_option("deterministic", &PassOptions::deterministic,
                                 "true: zero takes dimensions that eight divides, whatever the number of ranks")}),
       apply_strategy},
      {"lower-transforms",
       "replaces grad, value_and_grad, jvp, pullbacks, vmap and autocast by derived functions",
       "Works bottom-up over the call graph, so that inner transforms are gone before outer ones look. Reverse mode "
       "composes the ops' vjp rules; functions are derived once per set of active parameters, and a function is cut "
       "into "
       "a forward and a backward part whose residuals are exactly what the way back reads. Ops whose rule is by "
       "decomposition are decomposed on the way back only. In manual regions `vary` is put first where values that all ranks "
       "share meet others, so that gradients of what they share are summed. An op without a derivative on an "
       "active path is E0301. Runs first: later passes know neither transforms nor residuals.",
       Stage::kTraced,
       Stage::kFlat,
       {},
       lower_transforms},
      {"inline-calls",
       "puts called functions in the place of their calls",
       "Keeps the callees' source locations. Functions that no entry reaches are removed, and symbols that only they "
       "used. Runs before simplification, "
       "which looks at one function at a time.",
       Stage::kFlat,
       Stage::kFlat,
       {},
       inline_calls},
  };
}

Pass auto_shard_pass() {
  return {"auto-shard",
          "chooses layouts of state and inputs by the time that ranks would take",
          "Does nothing unless `search` is true. Every op may be split along each axis of the mesh by one of its factors; "
          "elementwise ops and movements lie as what they read; what is laid out otherwise is brought there. An integer program "
          "picks what takes the least time by the models of ir/cost, equal layers alike, with `max-bytes` of state on a rank at "
          "most. What the program or other options state stays. The leaves of the state, the inputs and all values get what was "
          "found, but for microbatches, where propagate completes it. Runs right before propagate: "
          "gradients are there, and composites are whole.",
          Stage::kFlat,
          Stage::kFlat,
          options_of(&PassOptions::auto_shard),
          auto_shard};
}

std::vector<Pass> shard_passes() {
  return {
      {"pad-shards",
       "makes dimensions longer that a layout cuts unevenly",
       "A layout with `allow_padding` may have axes that do not divide an extent. The dimension, and all that is computed along "
       "with it, becomes as long as the next multiple of the shards. What the padding holds is masked where it would count: "
       "sums take zeros, extremes the lowest or highest number, lookups stay within the rows that there are; composites "
       "are written out where their parts need that. Ops that cannot be masked get the elements without padding: a remark says "
       "so. Parameters, results and state keep their types, and their padding is zero when an entry ends. Runs right "
       "before propagate, which then meets axes that divide.",
       Stage::kFlat,
       Stage::kFlat,
       {shared_option("max-gather-bytes", &PassOptions::max_gather_bytes, "of one value that an op may get without its padding"),
        shared_option("deterministic", &PassOptions::deterministic,
                      "true: dimensions of which parts are padded are multiples of eight, whatever the number of ranks")},
       pad_shards},
      auto_shard_pass(),
      {"propagate",
       "says how every value is laid out over the mesh",
       "Starts from the layouts of parameters and state leaves and from `shard` nodes, and follows the factors of the ops, forward and "
       "backward, through the bodies of loops and branches, until nothing changes: layouts of priority 0 first, then those of 1; "
       "elementwise ops and movements before others; what nobody contests before what somebody does. If an axis is asked for by dimensions "
       "of several kinds (the batch, and a bias), those orders of arguments are compared by what ranks would send and multiply, and the "
       "best is taken. Closed dimensions stay as they are; an axis goes only where it divides the extent. Where two layouts meet that "
       "cannot both hold, the one wins that leaves fewer bytes to be laid out anew: a remark says so. The bodies of manual regions are put "
       "in their places first. A module without a mesh stays as it is. Runs on the simplified program; composites are whole.",
       Stage::kFlat,
       Stage::kSharded,
       options_of(&PassOptions::propagate,
                  {shared_option("deterministic", &PassOptions::deterministic,
                                 "true: an axis goes only where eight divides the extent, and whole, whatever its size")}),
       propagate},
      {"granulate-sums",
       "makes sums independent of how many ranks, microbatches and threads share them",
       "Does nothing for programs that are not deterministic. A floating-point sum along a dimension that lies along axes of the "
       "mesh, whatever their sizes, becomes eight sums of equal parts and a tree of additions that joins neighbours, of which ranks and "
       "microbatches have whole subtrees. What they exchange are its nodes, in place of one all_reduce. Runs after "
       "propagate, which tells what ranks share, and before partition, which is asked to refuse other sums over ranks.",
       Stage::kSharded,
       Stage::kSharded,
       {shared_option("deterministic", &PassOptions::deterministic, "true: every sum that ranks may share")},
       granulate_sums},
      {"partition",
       "makes of a program for all ranks what one rank computes",
       "Every node computes its part, as its factors say; operands that are laid out otherwise are brought there by "
       "reduce_scatter, all_reduce, all_to_all, all_gather or by cutting them. Sums over ranks stay pending as long as "
       "linear ops take them. Ops that cannot be split along the axes at hand are computed whole by every rank, which a "
       "remark says. Positions within the whole follow from symbols, the rank's coordinates. Without a mesh only `shard` "
       "nodes go. Runs right after propagate, and before anything that depends on the target.",
       Stage::kSharded,
       Stage::kLocal,
       options_of(&PassOptions::partition,
                  {shared_option("max-gather-bytes", &PassOptions::max_gather_bytes,
                                 "of one value that may be gathered for an op that cannot be split", Flag::kRanks),
                   shared_option("deterministic", &PassOptions::deterministic,
                                 "true: ranks combining floating-point numbers in their own order is an error")}),
       partition},
      {"expand-composites",
       "replaces composites that no kernel computes whole by their decompositions",
       "Composites stay whole through transforms, so that their own derivatives and factors count. Those whose record "
       "asks for it are written out here; the others reach fuse as they are. Runs first of what one rank computes: passes "
       "that shard see composites whole. Runs before simplification, which folds what "
       "decompositions compute from shapes and merges what they share with their surroundings.",
       Stage::kLocal,
       Stage::kLocal,
       {},
       expand_composites},
      {"lower-collectives",
       "brings collectives into the form that engines of communication have",
       "Parts of ranks are joined and cut along the first dimension alone, as they lie in memory; other dimensions are "
       "brought there by transpositions. A mean becomes a sum and a division, `vary` its operand, axis_index an expression "
       "over the rank's coordinates, and a group of one rank nothing. Runs before simplification, which joins those "
       "movements with others.",
       Stage::kLocal,
       Stage::kLocal,
       {},
       lower_collectives},
  };
}

std::vector<Pass> collective_passes() {
  return {
      {"create-reduce-scatters",
       "replaces all_reduces of which every rank reads its own part",
       "An all_reduce all of whose users cut the part at the rank's own place becomes a reduce_scatter, which sends half "
       "as much. Runs right after partition, where cuts stand beside the sums that they cut.",
       Stage::kLocal,
       Stage::kLocal,
       {},
       create_reduce_scatters},
      {"order-keys",
       "computes extremes of floats over the ranks of GPUs as extremes of integers",
       "A maximum or minimum of floats over ranks becomes one of integers that have the same order, in which NaN wins. "
       "NCCL drops NaN from extremes of floats. For CPUs nothing changes: their engines let NaN win.",
       Stage::kLocal,
       Stage::kLocal,
       {shared_option("keep-order", &PassOptions::keep_order,
                      "true: for CPUs too, so that programs for several targets exchange the same")},
       order_keys},
      {"hoist-collectives",
       "moves collectives of what does not change out of loops",
       "A collective whose operand is the same in every iteration of a loop that runs at least once is started once, "
       "before the loop. A gather, whose result is larger than its operand, moves only when `ops` names it. "
       "simplify-loops, which does the same for other ops, leaves collectives where they are.",
       Stage::kLocal,
       Stage::kLocal,
       options_of(&PassOptions::hoist_collectives),
       hoist_collectives},
      {"regather",
       "gathers parameters again for late readers",
       "A gathered parameter that is read early and again late, with gathers of others in between, is gathered twice, so "
       "that the whole is not kept meanwhile: the backward pass of ZeRO-3 gathers what the forward pass gathered (FSDP's "
       "reshard_after_forward). With `reshard-after-forward` false it is kept instead, by a loop over layers as a stack of all trips "
       "for the loop of the way back. Runs after equal gathers are merged, one of which partition makes for every reader; later "
       "merges see that these differ.",
       Stage::kLocal,
       Stage::kLocal,
       options_of(&PassOptions::regather),
       regather},
      {"bucket-collectives",
       "joins small collectives of one group",
       "Sums over ranks start as soon as their operand is there, and wait for others of the same kind, group and dtype "
       "until a bucket is full or one of them is needed. What needs one waits too where more of them are to come that do not "
       "follow from it: the updates of hand-written optimizers wait for all gradients. Gathers of parameters take along those that "
       "are needed next, others wait as sums do. The values of a "
       "bucket lie side by side in one buffer. What is larger than half a bucket stays alone. Every element is combined "
       "as before, with the same bits. Runs after simplification, when it is known which collectives are left.",
       Stage::kLocal,
       Stage::kLocal,
       options_of(&PassOptions::bucket_collectives,
                  {shared_option("keep-order", &PassOptions::keep_order,
                                 "true: nothing waits for the bucket of its operands, so that programs for several targets agree")}),
       bucket_collectives},
  };
}

std::vector<Pass> simplify_passes() {
  return {
      {"drop-debug",
       "leaves out debug prints and callbacks",
       "Runs only when it is asked for (nablac compile --no-debug-prints), before all others, so that the program is the one "
       "that it would be if it had never had them.",
       Stage::kTraced,
       Stage::kTraced,
       {},
       drop_debug},
      {"canonicalize",
       "applies small rewrite rules until none applies",
       "The rules are listed in passes/simplify/rules_arithmetic.cc and rules_movement.cc. They drop identities, join "
       "movements, fold transposes into matrix products and gather constants under scalars. No rule changes a result, "
       "except for the sign of a zero in x + 0; x * 0 stays for floats, because x may be NaN. Runs before folding and "
       "merging, which compare nodes by form.",
       Stage::kFlat,
       Stage::kFlat,
       {},
       canonicalize},
      {"fold-constants",
       "computes nodes whose operands are all constants",
       "Runs the ops' references. Results of more than 4096 elements "
       "stay "
       "unless they are smaller than the operands. Random numbers are never folded.",
       Stage::kFlat,
       Stage::kFlat,
       {},
       fold_constants},
      {"simplify-loops",
       "computes what does not change once, before the loop, and drops what a loop hands on for nobody",
       "Works on the ops whose record says how a loop is put together (with_control), callees first. What the body "
       "computes from constants alone moves before the loop; movements and literals stay, since they are computed "
       "where "
       "they are read, and what runs functions moves only where the body runs at least once. Operands that the body "
       "does not read, carries that never change or that feed only themselves, results that nobody uses, and the "
       "second "
       "of equal operands, carries and results are dropped; a sequence that the body hands on slice by slice is the "
       "result itself. Fences and side effects stay where they are.",
       Stage::kFlat,
       Stage::kFlat,
       {},
       simplify_loops},
      {"merge-common-subexpressions",
       "computes equal nodes once",
       "Nodes are equal when op, attributes and operands are; the operands of commutative ops in any order. Fences and "
       "side effects are left alone, so that what was fenced for recomputation stays recomputed.",
       Stage::kFlat,
       Stage::kFlat,
       {},
       merge_common_subexpressions},
      {"eliminate-dead-code",
       "drops nodes that nobody uses",
       "A node stays when one of its results is used or when it has side effects. Unused auxiliary results stay "
       "listed; "
       "lowering does not compute them.",
       Stage::kFlat,
       Stage::kFlat,
       {},
       eliminate_dead_code},
  };
}

std::vector<Pass> lower_passes() {
  return {
      {"specialise",
       "adds variants of entries for chosen values of their symbolic sizes",
       "Does nothing without sizes. An entry gets a variant for each combination of the values of the symbols that it "
       "uses, at most 64, which computes the same where symbols have these sizes; a run takes the first that fits, else "
       "the entry itself. What loops and branches run is copied too. Runs after simplification and before anything is "
       "laid out, so that code and memory of a variant follow from its own sizes.",
       Stage::kLocal,
       Stage::kLocal,
       options_of(&PassOptions::specialise),
       specialise},
      {"prepare",
       "brings results and matrix products into the form that fuse takes",
       "A result gets memory of its own: what is returned twice, and inputs and constants that are handed on, are "
       "copied, but for a state leaf that an entry leaves as it is. Matrix products with several batch, free or "
       "contracted dimensions become one with at most one of each, between reshapes, and transposes where dimensions "
       "are interleaved. On GPUs whose tensor cores multiply 8-bit floats, conversions of them come right before the product, "
       "which then reads what they convert. Nodes keep the number that they had before, by which the report names what a kernel "
       "computes. Runs after simplification, which would take copies and reshapes away again.",
       Stage::kLocal,
       Stage::kLocal,
       {},
       prepare},
      {"choose-libraries",
       "replaces products and convolutions by library calls where these are faster",
       "The choice is the tuning file's where it has measured the problem, else it follows from the target: what is large "
       "enough is a library's (oneDNN on CPUs; cuBLASLt and cuDNN on GPUs). On GPUs a bias, an addend and an activation "
       "that follow a product become part of the call, and filters are transposed as cuDNN wants them. Does nothing with "
       "--no-library. Needs what prepare makes, and runs before fuse, for which a call is a whole.",
       Stage::kLocal,
       Stage::kLocal,
       {},
       choose_libraries},
      {"fuse",
       "cuts functions into kernels, library calls and views",
       "Reads every op as formulas over elements (its access). Maps are computed where they are read; reductions and "
       "what "
       "follows them row by row share a kernel; matrix products take their elementwise successors as an epilogue. "
       "Of a GPU's program every library call gets a kernel that computes the same, for machines without the library. "
       "Equal kernels are one. "
       "Runs after simplification: what is computed twice then is computed twice on purpose. Needs what prepare makes.",
       Stage::kLocal,
       Stage::kKernels,
       options_of(&PassOptions::fuse),
       fuse},
  };
}

std::vector<Pass> schedule_passes() {
  return {
      {"schedule-kernels",
       "chooses how every kernel runs on its target",
       "Units of work, a bound of threads and the axis of vector lanes follow from the facts of the target. Axes that run "
       "through memory together are merged. On GPUs long reductions with few results and scatters of many updates into "
       "few rows are cut into slices, whose results lie in workspaces and are combined in order: launches get these as "
       "results, library calls as scratch memory of their fallbacks. Kernels that are equal afterwards are one. Runs "
       "after fuse, which says what is computed, and before recompute and plan-memory, which count workspaces.",
       Stage::kKernels,
       Stage::kKernels,
       {},
       schedule_kernels},
      {"stream-host-state",
       "copies state that lives in the host's memory to a GPU and back",
       "Does nothing on CPUs, whose memory is the host's, and without leaves whose memory is `host`. What reads such a leaf reads a "
       "copy on the device, which starts right before its first reader and serves the others, unless other leaves are "
       "copied in between: then it is copied anew, so that a parameter does not lie on the device from the way forward to its "
       "update. A new value goes to the host right after it is computed, and its memory on the device is free again. Runs after "
       "fuse and schedule-kernels, so that kernels and results are those of the program without it, and before "
       "recompute, schedule-collectives and plan-memory, for which copies are temporaries.",
       Stage::kKernels,
       Stage::kKernels,
       options_of(&PassOptions::stream_host_state),
       stream_host_state},
      {"recompute",
       "computes values again instead of keeping them, where memory is short",
       "Does nothing without remat-bytes. Where state and temporaries of an entry need more, values that lie idle at "
       "the "
       "peak are dropped, and their kernels run again just before the next use: first those that free the most bytes "
       "for the longest time for the least work. The same kernels on the same operands give the same bits. Loops and "
       "branches stay as they are. Runs on kernels, where it is known what is stored at all.",
       Stage::kKernels,
       Stage::kKernels,
       options_of(&PassOptions::recompute),
       recompute},
      {"schedule-collectives",
       "starts collectives and copies of state early, so that a rank computes meanwhile",
       "A collective moves before nodes that do not make its operand, until what runs meanwhile takes as long as it does by the "
       "cost model: a gather of a layer's weights starts while the layer before it computes, and so does a "
       "copy of state from the host's memory. "
       "Its result lies in memory "
       "from there on, so it stops where temporaries would need more than they did, and overlap-bytes. Runs after fuse and "
       "recompute, when it is known what runs in which order, and before plan-memory, which is asked whether it "
       "fits. With `prefetch` gathers of parameters, which ZeRO-3 makes, are placed by their number instead: at each kernel that "
       "needs some of them the next so many after these have started, whatever memory that takes; a loop starts none for its next "
       "trip. The waits are placed when the program is made: each as late as the plan allows.",
       Stage::kKernels,
       Stage::kKernels,
       options_of(&PassOptions::schedule_collectives,
                  {shared_option("keep-order", &PassOptions::keep_order,
                                 "true: no collective starts before one that stands before it, so that programs for several "
                                 "targets agree")}),
       schedule_collectives},
      {"plan-memory",
       "gives every value its place in one arena",
       "State leaves come first and are updated in place: the readers of an old value run before its writer, and an "
       "update "
       "that cannot be in place is an error with the bytes that a copy would cost. Temporaries share bytes where their "
       "lifetimes do not overlap, and results take over operands that die where the kernel permits. Runs last: it "
       "needs "
       "the final order.",
       Stage::kKernels,
       Stage::kPlanned,
       options_of(&PassOptions::plan_memory),
       plan_memory},
  };
}

}  // namespace

std::span<const Pass> all_passes() {
  static const std::vector<Pass> passes = [] {
    std::vector<Pass> all;
    for (auto family :
         {transform_passes, simplify_passes, shard_passes, collective_passes, lower_passes, schedule_passes})
      for (Pass& pass : family()) all.push_back(std::move(pass));
    return all;
  }();
  return passes;
}

const PassOption* find_option(std::string_view name) {
  for (const Pass& pass : all_passes())
    for (const PassOption& option : pass.options)
      if (option.name == name) return &option;
  return nullptr;
}

const Pass* find_pass(std::string_view name) {
  std::span<const Pass> passes = all_passes();
  auto it = std::find_if(passes.begin(), passes.end(), [&](const Pass& p) { return p.name == name; });
  return it == passes.end() ? nullptr : &*it;
}

}  // namespace nabla::passes
