// Along which axes a node is split by its factors, and what ranks exchange for that.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "passes/shard/local_values.h"
#include "passes/shard/sum_points.h"

namespace nabla::passes {

class SplitCosts {
 public:
  /// `pending`: parameters in which sums are pending. All references outlive this.
  SplitCosts(const ir::Function& f, const ir::Mesh& mesh, bool deterministic, const LocalValues& values,
             const std::set<ir::ValueId>& pending);

  /// Chooses the axes of every factor. Either operands are brought to where the results are wanted, or the node computes with what there
  /// is and its results are brought there: the choice that sends fewer bytes. One gradient has fewer bytes than the parameter and all that
  /// an optimizer remembers of it.
  std::vector<ir::Axes> cheapest_axes(const ir::Node& n, const ir::Factors& factors) const;
  /// Bytes that a rank sends for the node, until its results are as they are wanted.
  double sent(const ir::Node& n, const ir::Factors& factors, const std::vector<ir::Axes>& axes) const;
  /// The operands in which a sum may stay pending: the node is linear in them, over axes that split nothing. Zeros count as pending sums
  /// if the node needs all of its operands so.
  std::set<size_t> may_stay_pending(const ir::Node& n, const std::vector<ir::Axes>& axes) const;
  /// Does a rank get a share of a sum or product of narrow floats, of which other ranks have the rest?
  bool makes_shares(const ir::Node& n, const ir::Factors& factors, const std::vector<ir::Axes>& axes, const std::set<size_t>& kept) const;
  /// Is it the conversion of a sum to the narrow type in which one device rounds it? Ranks round it after they have combined it.
  bool narrows_sum(const ir::Node& n) const;

  /// The axes over which a sum stays pending in a value until somebody needs it combined.
  const ir::Axes& hands_on_pending(ir::ValueId id) const;
  /// The layout to which a value is gathered before its first reader, once. Nothing for all other values.
  std::optional<Layout> gathered_before(ir::ValueId id) { return std::exchange(elementwise_.sources[id], std::nullopt); }

 private:
  Layout wanted(ir::ValueId id, const ir::Factors& factors) const;
  bool ranks_differ(const ir::Node& n, const std::vector<ir::Axes>& axes, const ir::Axes& pending) const;

  const ir::Function& f_;
  const ir::Mesh& mesh_;
  bool deterministic_;
  const LocalValues& values_;
  const std::vector<Layout> read_;
  const std::vector<char> sum_points_, zeros_;  // by value
  GatheredEarlier elementwise_;
};

}  // namespace nabla::passes
