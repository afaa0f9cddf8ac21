// The local values of a function while its partition is planned: in which layout a rank has each value, and how it gets another one.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "passes/shard/free_values.h"

namespace nabla::passes {

/// The type in which ranks have shares of a sum of this type. Shares of narrow floats are f32: they are rounded once they are combined, as
/// on one device. `exchanged_as_is`: sums of this type are rounded on every rank before, because the user wants to exchange them so.
DType share_type(DType dtype, std::optional<DType> exchanged_as_is);

/// A value in one of the layouts that a rank has.
struct LocalState {
  Slot slot;
  Layout layout;
  DType dtype;
};

class LocalValues {
 public:
  /// New values go into `plan`. All references outlive this.
  LocalValues(const ir::Function& f, const ir::Mesh& mesh, const RankSymbols& rank, std::optional<DType> exchanged_as_is,
              PartitionPlan& plan);

  const LocalState& at(ir::ValueId id) const { return states_[static_cast<size_t>(id)]; }
  Layout declared(ir::ValueId id) const { return layout_of(f_.values[id].sharding, f_.type(id).rank()); }
  bool is_wide(ir::ValueId id) const { return at(id).dtype != f_.type(id).dtype; }
  DType share_type(DType dtype) const { return passes::share_type(dtype, exchanged_as_is_); }
  /// Is the value made of scalars, none of which is a sum that ranks have yet to combine?
  bool comes_free(ir::ValueId id) const { return free_.has(id) && at(id).layout.pending.empty(); }
  /// The layout that a value brings to a node. A value that is made of scalars has any layout.
  const Layout& asks_for(ir::ValueId id) const;
  /// Among the value as it is and what it has been combined to: that from which the fewest bytes are sent.
  const LocalState& nearest(ir::ValueId id, const Layout& to) const;

  /// The value in another layout. A pending sum is combined, once for all readers that need it combined in the same way.
  Slot bring(ir::ValueId id, const Layout& to);
  Slot replicated(ir::ValueId id) { return bring(id, layout_of(nullptr, f_.type(id).rank())); }
  /// The value in another layout, with the sum pending as before.
  Slot bring_pending(ir::ValueId id, const Layout& to);
  /// A value of which the sum over ranks has one.
  Slot bring_as_summand(ir::ValueId id, const Layout& to, const ir::Axes& axes);
  /// The value in its final layout, but for sums over the axes `stays`.
  Slot bring_share(ir::ValueId id, const ir::Axes& pending, const ir::Axes& stays, const Layout& to);
  std::optional<Slot> free_constant(const ir::Node& n, const Layout& layout) { return free_.constant(n, layout); }

  /// A parameter, as ranks get it.
  void start(ir::ValueId id, LocalState state) { states_[static_cast<size_t>(id)] = std::move(state); }
  /// From now on ranks have the value so. `dtype`: that of the slot, or nothing if the value is converted to its own type anyway.
  PlannedResult set(ir::ValueId id, Slot slot, std::optional<DType> dtype, Layout layout);
  /// The value is read in this layout from now on.
  void gather(ir::ValueId id, const Layout& to);
  Slot add(LocalValue value);

 private:
  Slot resharded(ir::ValueId id, const LocalState& from, const Layout& to, std::optional<DType> made = std::nullopt);
  Slot converted(Slot slot, DType from, DType to) { return from == to ? slot : add(Converted{slot, to}); }

  const ir::Function& f_;
  const ir::Mesh& mesh_;
  std::optional<DType> exchanged_as_is_;
  PartitionPlan& plan_;
  std::vector<LocalState> states_;                           // by value
  std::map<ir::ValueId, std::vector<LocalState>> combined_;  // pending values with their sums combined
  const std::vector<Layout> replicated_;                     // by rank
  FreeValues free_;
};

}  // namespace nabla::passes
