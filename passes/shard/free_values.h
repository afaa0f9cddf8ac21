// Values that follow from nothing but scalars (constants, positions, masks of positions). A rank computes any shard of them itself.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "passes/shard/partition_plan.h"

namespace nabla::passes {

/// The shard of a node that a rank computes if its factors are split along these axes.
ir::Shard shard_along(const ir::Mesh& mesh, const RankSymbols& rank, const ir::TypedOp& op, const ir::Factors& factors,
                      const std::vector<ir::Axes>& axes);
/// The layout of an operand or result of that shard.
Layout layout_along(const ir::Mesh& mesh, const ir::Factors::Tensor& dims, const ir::Factors& factors, const std::vector<ir::Axes>& axes);

class FreeValues {
 public:
  /// `add` puts a value into the plan. `bring` gives an operand of a node in another layout. All references outlive this.
  FreeValues(const ir::Function& f, const ir::Mesh& mesh, const RankSymbols& rank, std::function<Slot(LocalValue)> add,
             std::function<Slot(ir::ValueId, const Layout&)> bring);

  bool has(ir::ValueId id) const { return free_[id] && makers_[id] >= 0; }
  /// Such a value in a layout. Nothing if its node cannot be split so.
  std::optional<Slot> shard(ir::ValueId id, const Layout& to);
  /// The shard of a constant. Nothing if its elements differ.
  std::optional<Slot> constant(const ir::Node& n, const Layout& to);

 private:
  std::optional<Slot> split(const ir::Node& n, const Layout& to);

  const ir::Function& f_;
  const ir::Mesh& mesh_;
  const RankSymbols& rank_;
  std::function<Slot(LocalValue)> add_;
  std::function<Slot(ir::ValueId, const Layout&)> bring_;
  const std::vector<char> free_;
  const std::vector<int> makers_;
  struct Made {
    Slot slot;
    Layout layout;
  };
  std::map<ir::ValueId, std::vector<Made>> made_;
};

}  // namespace nabla::passes
