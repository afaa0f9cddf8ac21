// Which dimensions the pass pad-shards lengthens, and how ops go on with longer ones.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"
#include "passes/shard/layout.h"

namespace nabla::passes {

/// How a node takes a dimension that is followed by padding.
struct PaddedFactor {
  enum class How : uint8_t {
    kCut,    ///< not at all: it gets the elements without the padding
    kPass,   ///< as it is: what it makes of the padding is padding of the results
    kMask,   ///< with `combiner`'s identity in the padding
    kClamp,  ///< it looks elements up along the dimension: its indices (operand 1) stay within those without the padding
  };
  How how = How::kCut;
  kernel_ir::Combiner combiner = kernel_ir::Combiner::kNone;
};
/// Of a factor of the node.
PaddedFactor padded_factor(const ir::TypedOp& op, const ir::Factors& factors, int factor);

/// The lengths with padding of all dimensions of a module's values. Dimensions that nodes hand on to each other are
/// padded together: to the next multiple of what all layouts of them want. The smallest extent of such a class divides all others.
/// Example: 140 elements that are read as [4,35] are in no class with those read as [5,28], since neither of 4 and 5 divides the other.
class PaddedDims {
 public:
  /// `multiple`: of what padded lengths are multiples, whatever the shards are.
  PaddedDims(const ir::Module& module, int64_t multiple);

  /// Is there anything to pad?
  bool any() const { return !uneven_.empty(); }
  /// The dimension's extent with its padding; without any its extent.
  ir::Dim extent(int function, ir::ValueId value, int dim) const;
  ir::Shape shape(int function, ir::ValueId value) const;
  bool is_padded(int function, ir::ValueId value) const;
  int index(const std::string& function) const { return index_.at(function); }
  /// Whether other functions of the module call it: its parameters and results are padded then, those of others are as
  /// they were.
  bool is_called(const std::string& function) const { return called_.count(function) > 0; }
  /// The layout of a parameter or result, which the state leaf behind it may have; null: nothing is said.
  ir::ShardingRef layout(const std::string& function, bool result, size_t index) const;

 private:
  int variable(int f, ir::ValueId v, int d) const { return first_[f][v] + d; }
  int find(int v) const;
  void join(int a, int b);
  /// Do the extents of two classes nest, so that they can be one?
  bool nest(int a, int b) const;
  void join_values(int f, ir::ValueId a, int g, ir::ValueId b, int skip_a = 0, int skip_b = 0);
  void number();
  void find_layouts();
  void tie(int f, const ir::Node& n);
  void tie_control(int f, const ir::Node& n);
  void seed(int f, ir::ValueId v, const ir::Sharding& s);

  const ir::Module& m_;
  std::map<std::string, int> index_;
  std::set<std::string> called_;
  std::vector<std::vector<int>> first_;  // by function and value: of its dimension 0
  mutable std::vector<int> parent_;
  std::vector<ir::Dim> least_;  // by class: the extent that divides all others but zeros
  const int64_t least_multiple_;
  std::set<int> uneven_;             // classes with a layout that does not divide
  std::map<int, int64_t> multiple_;  // by class: what lengths are multiples of
  std::map<std::pair<std::string, int>, ir::ShardingRef> of_param_, of_result_;
};

/// ceil(extent / shards) * shards along the axes.
ir::Dim with_padding(const ir::Dim& extent, int64_t shards);
/// Is the node the `pad` after an array with uneven shards, or the `slice` before one?
bool meets_padding(const ir::Function& f, const ir::Node& node, const ir::Mesh& mesh);
/// By value of a sharded function: its layout, but whole along a dimension of which nobody reads parts: copies of it are laid out whole
/// there, or go to slices that are, such as those that cut padding off.
std::vector<Layout> layouts_that_are_read(const ir::Function& f);

}  // namespace nabla::passes
