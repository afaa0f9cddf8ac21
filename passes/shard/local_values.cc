#include "passes/shard/local_values.h"

#include <algorithm>
#include <utility>

#include "passes/shard/granulate_sums.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::ValueId;

std::vector<Layout> replicated_layouts(const ir::Function& f) {
  int most = 0;
  for (const ir::Value& v : f.values) most = std::max(most, v.type.rank());
  std::vector<Layout> out;
  for (int rank = 0; rank <= most; ++rank) out.push_back(layout_of(nullptr, rank));
  return out;
}

}  // namespace

DType share_type(DType dtype, std::optional<DType> exchanged_as_is) { return dtype == exchanged_as_is ? dtype : accumulation_type(dtype); }

LocalValues::LocalValues(const ir::Function& f, const ir::Mesh& mesh, const RankSymbols& rank, std::optional<DType> exchanged_as_is,
                         PartitionPlan& plan)
    : f_(f),
      mesh_(mesh),
      exchanged_as_is_(exchanged_as_is),
      plan_(plan),
      states_(f.values.size()),
      replicated_(replicated_layouts(f)),
      free_(
          f, mesh, rank, [this](LocalValue v) { return add(std::move(v)); },
          [this](ValueId id, const Layout& to) { return bring(id, to); }) {
  plan_.made_pending.resize(f.values.size());
}

Slot LocalValues::add(LocalValue value) {
  plan_.values.push_back(std::move(value));
  return static_cast<Slot>(plan_.values.size() - 1);
}

const Layout& LocalValues::asks_for(ValueId id) const {
  return comes_free(id) ? replicated_[static_cast<size_t>(f_.type(id).rank())] : at(id).layout;
}

const LocalState& LocalValues::nearest(ValueId id, const Layout& to) const {
  const LocalState* best = &at(id);
  auto sent = [&](const LocalState& s) { return reshard_bytes(mesh_, f_.type(id), s.layout, to, s.dtype); };
  if (auto combined = combined_.find(id); combined != combined_.end())
    for (const LocalState& state : combined->second)
      if (sent(state) < sent(*best)) best = &state;
  return *best;
}

Slot LocalValues::resharded(ValueId id, const LocalState& from, const Layout& to, std::optional<DType> made) {
  // With its padding the value is as long as all shards together.
  ir::Type padded = local_type(mesh_, {from.dtype, f_.type(id).shape}, from.layout);
  for (size_t d = 0; d < padded.shape.size(); ++d) padded.shape[d] = padded.shape[d] * shards(mesh_, from.layout.dims[d]);
  std::vector<ReshardStep> steps = reshard_steps(mesh_, padded, from.layout, to);
  return steps.empty() ? from.slot : add(Resharded{from.slot, from.layout, std::move(steps), made});
}

Slot LocalValues::bring(ValueId id, const Layout& to) {
  // A value that is made of scalars is computed in the layout that is wanted, and not sent.
  if (comes_free(id) && !(at(id).layout == to))
    if (std::optional<Slot> made = free_.shard(id, to)) return *made;
  if (const LocalState& from = nearest(id, to); from.layout.pending.empty()) return resharded(id, from, to);
  LocalState& state = states_[static_cast<size_t>(id)];
  // A sum is combined once for all who need it so, or to whom its shares are near.
  const DType dtype = f_.type(id).dtype;
  for (const ReshardStep& step : reshard_steps(mesh_, f_.type(id), state.layout, to)) {
    Axes rest = without(state.layout.pending, step.axes);
    if (step.kind != ReshardStep::kAllReduce || rest.size() + step.axes.size() != state.layout.pending.size()) break;
    state.slot = add(Reduced{state.slot, step.axes, kernel_ir::Combiner::kSum});
    state.layout.pending = std::move(rest);
  }
  if (state.layout.pending.empty()) {
    state.slot = converted(state.slot, state.dtype, dtype), state.dtype = dtype;
    return resharded(id, state, to);
  }
  const Slot made = resharded(id, state, to, dtype);
  combined_[id].push_back({made, to, dtype});
  return made;
}

Slot LocalValues::bring_pending(ValueId id, const Layout& to) {
  const LocalState& state = at(id);
  return resharded(id, {state.slot, {state.layout.dims, {}}, state.dtype}, to);
}

Slot LocalValues::bring_as_summand(ValueId id, const Layout& to, const Axes& axes) {
  if (at(id).layout.pending == axes) return converted(bring_pending(id, to), at(id).dtype, share_type(at(id).dtype));
  const DType dtype = f_.type(id).dtype;
  return converted(add(OnFirstRank{bring(id, to), axes}), dtype, share_type(dtype));
}

Slot LocalValues::bring_share(ValueId id, const Axes& pending, const Axes& stays, const Layout& to) {
  LocalState state = at(id);
  const DType dtype = share_type(state.dtype);
  state.slot = converted(state.slot, state.dtype, dtype), state.dtype = dtype;
  state.layout.pending = without(pending, stays);
  return resharded(id, state, to);
}

PlannedResult LocalValues::set(ValueId id, Slot slot, std::optional<DType> dtype, Layout layout) {
  const DType own = f_.type(id).dtype;
  if (layout.pending.empty() && dtype != own) slot = add(Converted{slot, own}), dtype = own;
  states_[static_cast<size_t>(id)] = {slot, layout, dtype.value_or(own)};
  plan_.made_pending[static_cast<size_t>(id)] = layout.pending;
  return {slot, std::move(layout), dtype.value_or(own)};
}

void LocalValues::gather(ValueId id, const Layout& to) {
  const Slot slot = bring(id, to);
  states_[static_cast<size_t>(id)] = {slot, to, f_.type(id).dtype};
}

}  // namespace nabla::passes
