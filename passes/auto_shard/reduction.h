// A graph of choices made small without losing its cheapest states.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "passes/auto_shard/choices.h"

namespace nabla::passes {

/// Choices with one edge between two nodes at most, under reduction: see `cheapest`.
class Reduction {
 public:
  Reduction(size_t nodes, double most_bytes) : limited_(most_bytes < kNever), most_bytes_(most_bytes), nodes_(nodes) {}

  /// Adds to what the node's states cost. All that is added to one node has as many states.
  void add_node(int node, const std::vector<double>& us, const std::vector<double>& bytes);
  /// After all nodes. Both ends may be one node.
  void add_edge(int first, int second, const CostTable& table, double times);
  /// Drops states and folds nodes, until nothing changes.
  void run();
  size_t left() const;  ///< nodes that are neither folded nor decided
  /// The cheapest states of all nodes; nothing where the limit excludes all. After run.
  Result<std::optional<std::vector<int>>> solve(size_t& columns) const;

 private:
  struct Node {
    std::vector<double> us, bytes;
    std::vector<int> alive;  // states
    bool folded = false;
    std::map<int, CostTable> edges;  // by neighbour: a row per state of this node; both ends have one
  };
  /// The best state of a node that is gone, by those of its neighbours.
  struct Folded {
    int node;
    std::vector<int> neighbours;  // two at most
    std::vector<int> best;        // by the states of the first, then the second
  };

  bool drop_dominated(int node);
  bool dominates(const Node& n, int winner, int loser) const;
  bool drop_impossible(int node);
  bool fold(int node);
  void forget_edge(int a, int b);
  bool counts(const Node& n) const { return limited_ && !n.bytes.empty(); }

  bool limited_;
  double most_bytes_;
  std::vector<Node> nodes_;
  std::vector<Folded> folded_;
};

}  // namespace nabla::passes
