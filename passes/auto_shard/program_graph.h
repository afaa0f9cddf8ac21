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

/// What one function's values are for the search.
struct SpotsOfValues {
  std::vector<Spot> spot;     ///< by value
  std::vector<Spot> said;     ///< by value: where its layout is a choice of its own; -1: it is not
  std::vector<Spot> settled;  ///< by value: of a sum in a group, when it is none any more; -1: nobody asks
  std::vector<char> free;     ///< by value: made of nothing but scalars, as its reader wants it
  std::vector<int> group;     ///< by value: of sums that are joined; -1: none
  std::vector<const ir::Node*> maker;  ///< by value; null: it is a parameter
};

/// A value that control flow takes or gives and whose layout is a choice of its own, and the tensor that the functions are tied to.
struct HandedOn {
  const ir::Function* function;
  const ir::Node* node;  ///< whose operand it is; null: it is a result of the function
  ir::ValueId value;
  Spot spot;
};

struct ProgramGraph {
  SpotTies ties;
  std::vector<StoredSpot> stored;  ///< first the leaves in their order, then others
  std::vector<SpotLink> links;
  std::vector<SplitNode> nodes;
  std::vector<HandedOn> handed_on;
  std::map<const ir::Function*, SpotsOfValues> values;  ///< of functions that entries reach
  std::set<Spot> sums;  ///< what lies in their clusters may stay a sum over ranks
  /// Values that live at once where an entry needs the most memory, by whole sizes: what the way back reads of the way forward.
  std::vector<Spot> kept;
};

/// Of a flat module. Elementwise ops and movements tie their operands and results, as control flow does; all other ops are
/// nodes. Sums that linear ops join (the gradients of one value by several uses) are in clusters of their own, so that they
/// are exchanged once. Nodes in loops count as often as they run. E0303 and E0107 as in `bottom_up`.
Result<ProgramGraph> graph_of(const ir::Module& module);

}  // namespace nabla::passes
