// What of a program for several ranks is padding: parts of uneven tensors are as long as the longest.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/program_set.h"

namespace nabla::driver {

/// Follows dimensions of leaves, inputs and outputs that ranks cut unevenly through the ops of the class's program, as far as ops
/// hand them on: not through a change to longer or shorter parts.
class Padding {
 public:
  Padding(const ir::ProgramSet& set, size_t of_class);

  /// Elements of a value that are padding, as the mean over the ranks.
  double elements(const ir::Function& f, ir::ValueId value) const;

 private:
  int variable(const ir::Function& f, ir::ValueId v, int dim) const { return first_.at(f.name)[static_cast<size_t>(v)] + dim; }
  int find(int variable) const;
  void join(int a, int b) { parent_[static_cast<size_t>(find(a))] = find(b); }
  void tie(const ir::Function& f, const ir::Node& n);
  void seed(const std::vector<ir::WholeTensor>& wholes, size_t of_class, bool state, bool results);
  void seed(const ir::WholeTensor& whole, const ir::ClassPlacement& part, const std::string& function, size_t place, bool result);

  const ir::Module& m_;
  std::map<std::string, std::vector<int>> first_;   // by function and value: of its dimension 0
  std::map<std::string, std::vector<int>> makers_;  // by function
  mutable std::vector<int> parent_;
  std::map<int, double> share_;  // by class of dimensions: what of their extent are elements
};

}  // namespace nabla::driver
