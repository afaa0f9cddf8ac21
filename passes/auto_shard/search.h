// Layouts of a program by the least predicted time.
#pragma once

#include <string>
#include <vector>

#include "ir/target.h"
#include "passes/auto_shard/choices.h"
#include "passes/auto_shard/program_graph.h"
#include "passes/shard/reshard.h"

namespace nabla::passes {

/// What ranks exchange for a link or a node, by the layouts that were chosen.
struct ExchangeOfNode {
  const ir::Function* function;
  const ir::Node* node;  ///< null: the end of the function
  ReshardStep::Kind kind;
  ir::Axes axes;
  double part = 0;   ///< bytes that a rank brings to it
  double times = 1;  ///< in a run of every entry
};

/// A leaf or an input, and what was found for it.
struct FoundLayout {
  const StoredSpot* stored;
  Layout layout;
  bool is_free = false;         ///< the program had left something open
  bool used_otherwise = false;  ///< a node that reads it gets it in another layout
  double bytes = 0;             ///< on a rank
  Layout next;                  ///< the next best one, if all else stays
  double next_us = kNever;      ///< how much more that costs; kNever: there is none
};

struct FoundLayouts {
  std::vector<FoundLayout> stored;  ///< leaves, inputs and other values that the program lays out, as ProgramGraph::stored
  std::vector<Layout> spots;        ///< of all tensors, by number
  std::vector<ExchangeOfNode> exchanges;
  double exchange_us = 0, product_us = 0;  ///< of a run of every entry
  double state_bytes = 0, kept_bytes = 0;  ///< on a rank; of ProgramGraph::kept
  Chosen search;
};

/// Axes of the mesh along which ranks lie, of more than one: at most so many are searched.
inline constexpr size_t kMostAxes = 3;

/// What a rank may keep: kNever is no limit.
struct SearchLimits {
  double state = kNever;   ///< bytes of the leaves
  double memory = kNever;  ///< of the leaves and of ProgramGraph::kept together; one of the two is given
};

/// Of a flat module with a mesh. A node's parts follow from how the axes split
/// its factors, each axis one at most; what is laid out otherwise is brought there, in the time of ir/cost; products take the
/// time of the target, all else none. E0402 where no layouts keep the limit, E0901 for meshes of more axes, E0602 as `solve`.
Result<FoundLayouts> search_layouts(const ir::Module& module, const ProgramGraph& graph, const SearchLimits& limits,
                                    const ir::Target& target);

}  // namespace nabla::passes
