// Along which mesh axes the factors of a node can be split.
#pragma once

#include <functional>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"
#include "passes/shard/layout.h"

namespace nabla::passes {

/// Does every factor map elements to elements, as those of elementwise ops do?
bool goes_over_elements(const ir::Factors& factors);

/// Proposals for the axes of the factors of one node; which of them is cheapest is for the caller to decide.
class FactorAxes {
 public:
  /// `layout` gives the layout that a value has now, `wanted` the layout in which a result is read. A deterministic
  /// program has the sums that ranks may share in granules, so that no other sum of floats is split.
  FactorAxes(const ir::Function& f, const ir::Mesh& mesh, bool deterministic, const ir::Node& n, const ir::Factors& factors,
             std::function<const Layout&(ir::ValueId)> layout, std::function<Layout(ir::ValueId)> wanted);

  enum class From : uint8_t { kResultsFirst, kOperandsFirst, kResults };
  /// The axes of the results' layouts and of the operands' layouts, the largest operand first. No axis splits two factors.
  std::vector<ir::Axes> take(From from) const;
  /// The same axes, each followed by those by which another tensor of the node continues them.
  std::vector<ir::Axes> continued(std::vector<ir::Axes> axes) const;

 private:
  bool cuts_time(const ir::Axes& axes) const;
  bool has_fixed_order(const ir::Factors::Factor& factor) const;

  const ir::Function& f_;
  const ir::Mesh& mesh_;
  bool deterministic_;
  const ir::Node& n_;
  const ir::Factors& factors_;
  std::function<const Layout&(ir::ValueId)> layout_;
  std::function<Layout(ir::ValueId)> wanted_;
};

}  // namespace nabla::passes
