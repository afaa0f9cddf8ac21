// Choices that cost something alone and in pairs, and the cheapest of them under a limit of bytes.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/diagnostic.h"

namespace nabla::passes {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// What two choices cost together: a row per state of the first, a column per state of the second. kNever: they exclude each
/// other.
struct CostTable {
  size_t rows = 0, columns = 0;
  std::vector<double> us;
  double at(size_t row, size_t column) const { return us[row * columns + column]; }
};

/// A graph of choices: each node takes one of its states, and each edge costs what the states of its ends do.
struct Choices {
  struct Node {
    std::vector<double> us;     ///< per state
    std::vector<double> bytes;  ///< per state: counts towards the limit; empty: none
  };
  struct Edge {
    int first, second;
    std::shared_ptr<const CostTable> table;
    double times = 1;
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  double most_bytes = kNever;  ///< of all nodes together
};

struct Chosen {
  std::vector<int> states;  ///< per node
  double us = 0, bytes = 0;
  // How large the search was.
  size_t classes = 0;  ///< of nodes that are equal
  size_t left = 0;     ///< of them, which the solver decides
  size_t columns = 0;  ///< of its program
};

/// Which nodes are equal, by number: coarsest classes in which all nodes have the same costs, and edges of the same costs to
/// the same classes (colour refinement).
std::vector<int> equal_nodes(const Choices& choices);
/// The cheapest states under the limit, where equal nodes take equal states; nothing where the limit excludes all. States that
/// another one of the node beats whatever the others do are dropped (dead-end elimination: Goldstein 1994), nodes with two
/// neighbours at most are decided from them, and an integer program decides the rest, as in Alpa (Zheng et al., OSDI 2022). E0602 as
/// `solve`.
Result<std::optional<Chosen>> cheapest(const Choices& choices);
/// What the states cost.
double cost_of(const Choices& choices, const std::vector<int>& states);
/// The least bytes that any states have.
double least_bytes(const Choices& choices);

}  // namespace nabla::passes
