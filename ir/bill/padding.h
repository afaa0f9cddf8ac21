// The padding of a program for several ranks: the shards of an unevenly cut tensor are all as long as the longest one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/program_set.h"

namespace nabla::ir {

/// Follows unevenly cut dimensions of leaves, inputs and outputs through the ops of a class's program, as long as ops keep the
/// dimension. An op that makes shards longer or shorter ends it.
class Padding {
 public:
  Padding(const ProgramSet& set, size_t of_class);

  /// Returns how many elements of a value are padding, averaged over the ranks.
  double elements(const Function& f, ValueId value) const;

 private:
  int variable(const Function& f, ValueId v, int dim) const { return first_.at(f.name)[static_cast<size_t>(v)] + dim; }
  int find(int variable) const;
  void join(int a, int b) { parent_[static_cast<size_t>(find(a))] = find(b); }
  void tie(const Function& f, const Node& n);
  void seed(const std::vector<WholeTensor>& wholes, size_t of_class, bool state, bool results);
  void seed(const WholeTensor& whole, const ClassPlacement& part, const std::string& function, size_t place, bool result);

  const Module& m_;
  std::map<std::string, std::vector<int>> first_;   // by function and value: of its dimension 0
  std::map<std::string, std::vector<int>> makers_;  // by function
  mutable std::vector<int> parent_;
  std::map<int, double> share_;  // by class of dimensions: what of their extent are elements
};

}  // namespace nabla::ir
