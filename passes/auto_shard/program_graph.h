// A program as a search for layouts sees it: what lies alike, what is computed by parts, and what changes its layout between.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/op_def.h"
#include "passes/auto_shard/ties.h"

namespace nabla::passes {

/// A tensor with layouts of its own: a leaf of the state, an input, or a value of which the program says how it lies.
struct StoredSpot {
  Spot spot;
  ir::ShardingRef said;  ///< by the program; null: nothing
  int leaf = -1;         ///< of the state
  int entry = -1;        ///< of an input: its entry, and its number there
  size_t input = 0;
};

/// From one layout to another, whenever the node runs.
struct SpotLink {
  Spot from, to;
  double times;
  const ir::Function* function;
  const ir::Node* node;  ///< null: the end of the function
};

/// A node whose parts follow from how its factors are split.
struct SplitNode {
  const ir::Function* function;
  const ir::Node* node;
  ir::Factors factors;
  std::vector<Spot> operands, results;
  double times;
};

struct ProgramGraph {
  Ties ties;
  std::vector<StoredSpot> stored;  ///< first the leaves in their order, then others
  std::vector<SpotLink> links;
  std::vector<SplitNode> nodes;
  std::set<Spot> sums;  ///< what lies in their clusters may stay a sum over ranks
};

/// Of a flat module. Elementwise ops and movements tie their operands and results, as control flow does; all other ops are
/// nodes. Sums that linear ops join (the gradients of one value by several uses) are in clusters of their own, so that they
/// are exchanged once. Nodes in loops count as often as they run. E0303 and E0107 as in `bottom_up`.
Result<ProgramGraph> graph_of(const ir::Module& module);

/// Is it a product of matrices, or a composite of some: what computing takes its time for?
bool is_product(const ir::Node& node);

}  // namespace nabla::passes
