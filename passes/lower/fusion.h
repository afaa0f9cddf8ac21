// Decides what is computed inside its users, what is stored, and which stored tensors share a kernel.
#pragma once

#include "ir/target.h"
#include "passes/lower/tensor_graph.h"

namespace nabla::passes {

/// Tensors that one kernel computes. `outer` are its shared parallel axes; for each member, outer_axes[i] is the
/// member's own axis that runs along outer axis i.
struct FusionGroup {
  struct Member {
    int tensor;
    std::vector<int> outer_axes;
  };
  ir::Shape outer;
  std::vector<Member> members;  ///< in dependency order
  bool contraction = false;     ///< the first member is a matrix product, the others its epilogue
};

struct FusionPlan {
  TensorGraph graph;                ///< formulas after inlining
  std::vector<FusionGroup> groups;  ///< in an order in which they can run, opaque nodes aside
  std::vector<int> group_of;        ///< per tensor; -1: not stored by a kernel
  std::vector<bool> external;       ///< per tensor: must be in memory for a result, an opaque node or another group
  std::vector<bool> scalar;         ///< rank-0 maps: computed at the head of every kernel that reads them
};

/// A parameter whose memory a result takes over: whoever reads the old value runs before the new one is written.
struct Donated {
  ir::ValueId old, fresh;
};

/// How far kernels may grow on a target.
struct FusionLimits {
  int64_t row_bytes = 64 << 10;      ///< of one tensor inside a kernel, per iteration
  int64_t lanes = 1;                 ///< iterations along a tensor's last axis that run, and keep rows, together
  int64_t serial_points = 16 << 10;  ///< work that may lose its parallel axes to be fused
  int64_t parallel = 16;             ///< iterations that keep the machine busy, whatever each of them does
  int64_t iteration_points = 0;      ///< work of an iteration that its threads share; 0: it has one thread
  int64_t column_points = 0;         ///< how far an iteration may walk across memory, for threads beside each other; 0: any
  int64_t again_cost = 0;            ///< arithmetic of an element that users repeat to read fewer bytes than it has
  bool fuse = true;                  ///< false: every op that computes is a kernel of its own
  bool by_sizes = true;              ///< false: what is fused does not depend on sizes (Target::deterministic)
};
FusionLimits fusion_limits(const ir::Target& target);

/// `needed`: values that must be in memory at the end (results of the function, operands of opaque nodes).
FusionPlan plan_fusion(TensorGraph graph, const ir::Function& function, const std::vector<ir::ValueId>& needed,
                       const FusionLimits& limits, const std::vector<Donated>& donated = {});

/// The tensor that holds the bytes: views followed to their base.
int storage_of(const TensorGraph& graph, int tensor);

}  // namespace nabla::passes
