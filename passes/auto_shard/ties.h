// Tensors that are laid out alike: dimensions that are one, and groups of tensors that share some.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "ir/type.h"

namespace nabla::passes {

/// A tensor, by number; one value of a program may be several.
using Spot = int;

class SpotTies {
 public:
  /// The type has to outlive this.
  Spot add(const ir::Type& type);
  /// These dimensions are one from now on. Where that would make two dimensions of one tensor one, they are blocked instead:
  /// no axis could lie along both.
  void tie(const std::vector<std::pair<Spot, int>>& places);
  /// No axis lies along the dimension, nor along any that is one with it.
  void block(Spot spot, int dim) { blocked_[at(root_of_dim(spot, dim))] = true; }

  const ir::Type& type(Spot spot) const { return *types_[at(spot)]; }
  int count() const { return static_cast<int>(types_.size()); }
  /// The tensors that share dimensions with it, directly or over others, have the same number.
  int cluster(Spot spot) const { return find(clusters_, spot); }
  /// Dimensions that are one have the same number.
  int root_of_dim(Spot spot, int dim) const { return find(dims_, first_[at(spot)] + dim); }
  bool is_blocked(int root) const { return blocked_[at(root)]; }

 private:
  static size_t at(int i) { return static_cast<size_t>(i); }
  static int find(std::vector<int>& parents, int i) {
    while (parents[at(i)] != i) i = parents[at(i)] = parents[at(parents[at(i)])];
    return i;
  }
  void tie(std::pair<Spot, int> a, std::pair<Spot, int> b);

  std::vector<const ir::Type*> types_;
  std::vector<int> first_;                        // dimension 0 of a tensor
  mutable std::vector<int> clusters_, dims_;      // union-find
  std::vector<std::set<Spot>> members_;           // of the roots of dims_: tensors that have them
  std::vector<char> blocked_;                     // of the roots of dims_
};

}  // namespace nabla::passes
