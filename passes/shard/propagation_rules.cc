// How axes go through one node, and which of them where not all can.
#include <algorithm>

#include "passes/rewrite.h"
#include "passes/shard/manual_regions.h"
#include "passes/shard/propagation.h"

namespace nabla::passes {

using ir::Axes;
using ir::Factors;
using ir::Function;
using ir::Node;
using ir::ValueId;

const char* const kIndivisible = "the extent is not divisible so";
const char* const kNoGranules = "the program is deterministic, and eight does not divide the extent";
const char* const kPartOfAxis = "the program is deterministic, and how an axis is cut depends on its size";

namespace {

std::vector<std::pair<ValueId, const Factors::Tensor*>> tensors(const Node& n, const Factors& factors) {
  std::vector<std::pair<ValueId, const Factors::Tensor*>> out;
  for (size_t i = 0; i < n.results.size(); ++i) out.push_back({n.results[i], &factors.results[i]});
  for (size_t i = 0; i < n.operands.size(); ++i) out.push_back({n.operands[i], &factors.operands[i]});
  return out;
}

bool is_movement(const Node& n) { return n.op->traits.elementwise || n.op->category == "movement"; }

// The first one of two lists; where neither begins the other, what both begin with.
Axes common(const Axes& a, const Axes& b) {
  size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return {a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n)};
}

}  // namespace

bool Propagation::sweep(int f, bool forward) {
  size_t count = nodes_[f].size();
  bool changed = false;
  for (size_t i = 0; i < count; ++i) changed |= visit(f, forward ? i : count - 1 - i);
  return changed;
}

bool Propagation::changed_since(int f, const Node& n, int64_t when) const {
  for (const auto* ids : {&n.operands, &n.results})
    for (ValueId v : *ids)
      for (int d = 0; d < m_.functions[f]->type(v).rank(); ++d)
        if (changed_[variable(f, v, d)] > when) return true;
  return false;
}

bool Propagation::visit(int f, size_t index) {
  const Node& n = m_.functions[f]->nodes[index];
  NodeState& state = nodes_[f][index];
  if (state.seen >= 0 && !changed_since(f, n, state.seen)) return false;
  int64_t now = clock_;
  bool changed = false;
  if (is_border(n))
    changed = relate_border(f, n);
  else if (n.op->layout_role == ir::LayoutRole::kBarrier)
    changed = relate_barrier(f, n);
  else if (n.op->layout_role == ir::LayoutRole::kByRule)  // which says more than the ops of which the value was made
    changed = relate(f, n, state) | pass_on(f, n, false, true);
  else if (n.op->lower != ir::Lowering::kControl && n.op->factors.exists() && (!phase_.movement || is_movement(n)))
    changed = relate(f, n, state);
  state.seen = now;
  return changed;
}

bool Propagation::relate(int f, const Node& n, NodeState& state) {
  if (!state.known) {
    ir::TypedOp op = typed(*m_.functions[f], n);
    const OpRule* rule = rule_of(*n.op);
    state.factors = n.op->factors(op), state.known = true;
    if (n.op->layout_role == ir::LayoutRole::kByRule) state.factors.operands[0].assign(op.operands[0].shape.size(), {});
    if (rule && rule->ties) state.ties = rule->ties(op);
  }
  const Factors& factors = state.factors;
  std::vector<Tensor> all;
  for (const auto& [value, dims] : tensors(n, factors)) all.push_back({value, dims});
  state.contested = false;
  std::vector<Axes> wanted;
  std::vector<Candidate> from;
  for (const std::vector<Candidate>& of_factor : candidates(f, factors, all)) {
    from.push_back(chosen(f, n, of_factor, state));
    wanted.push_back(from.back().axes);
  }
  bool changed = false;
  for (const Tensor& t : all)
    for (size_t d : order(f, n, t, wanted, from, state)) {
      Axes axes = axes_of_dim(mesh_, (*t.dims)[d], factors, wanted);
      auto first = std::find_if((*t.dims)[d].begin(), (*t.dims)[d].end(), [&](int k) { return from[k].place >= 0; });
      changed |= extend(first_[f][t.value] + static_cast<int>(d), axes,
                        {f, &n, first == (*t.dims)[d].end() ? -1 : from[*first].place});
    }
  return hand_on(f, n, state.ties) || changed;
}

// Along the dimensions that a rule of the op ties: the longest of their axes.
bool Propagation::hand_on(int f, const Node& n, const Ties& ties) {
  bool changed = false;
  for (const std::vector<TensorDim>& tie : ties) {
    int from = -1;
    auto place = [&](const TensorDim& t) {
      return first_[f][(t.result ? n.results : n.operands)[t.index]] + static_cast<int>(t.dim);
    };
    for (const TensorDim& t : tie)
      if (from < 0 || handed_on(find(place(t))).size() > handed_on(find(from)).size()) from = place(t);
    const Axes axes = from < 0 ? Axes() : handed_on(find(from));
    for (const TensorDim& t : tie) changed |= extend(place(t), axes, {f, &n, from});
  }
  return changed;
}

std::vector<std::vector<Propagation::Candidate>> Propagation::candidates(int f, const Factors& factors,
                                                                         const std::vector<Tensor>& all) const {
  std::vector<std::vector<Candidate>> out(factors.factors.size());
  auto is_free = [&](const Tensor& t) { return free_[static_cast<size_t>(f)][static_cast<size_t>(t.value)] != 0; };
  const bool all_free = std::all_of(all.begin(), all.end(), is_free);
  for (const Tensor& t : all)
    for (size_t d = 0; d < t.dims->size(); ++d) {
      const std::vector<int>& dim = (*t.dims)[d];
      const int from = variable(f, t.value, static_cast<int>(d));
      const Axes has = handed_on(from);
      if (has.empty() || (is_free(t) && !all_free && !said_by_.contains(from))) continue;
      auto parts = axes_of_factors(mesh_, has, dim, factors);
      for (size_t k = 0; parts && k < dim.size(); ++k) {
        const Axes& axes = (*parts)[k];
        if (axes.empty() || !can_split(factors.factors[dim[k]])) continue;
        std::vector<Candidate>& known = out[dim[k]];
        Candidate mine{axes, first_[f][t.value] + static_cast<int>(d), t.value, bytes(f, t.value)};
        auto same = std::find_if(known.begin(), known.end(), [&](const Candidate& c) {
          return is_prefix(c.axes, axes) || is_prefix(axes, c.axes);
        });
        if (same == known.end()) {
          known.push_back(std::move(mine));
          continue;
        }
        bool longer = axes.size() > same->axes.size();
        if (longer) same->axes = axes, same->place = mine.place;
        if (mine.bytes > bytes(f, same->largest)) same->largest = mine.largest;
        same->bytes += mine.bytes;
      }
    }
  return out;
}

// Where neither of two continues the other: what both begin with, and later the one that leaves fewer bytes to move,
// then that of the larger tensor, then the first.
Propagation::Candidate Propagation::chosen(int f, const Node& n, const std::vector<Candidate>& of_factor,
                                           NodeState& state) {
  if (of_factor.empty()) return {{}, -1, -1, 0};
  if (of_factor.size() == 1) return of_factor[0];
  state.contested = true;
  if (!phase_.aggressive) {
    Candidate out = of_factor[0];
    for (const Candidate& c : of_factor) out.axes = common(out.axes, c.axes);
    return out;
  }
  const Candidate *best = &of_factor[0], *second = nullptr;
  for (const Candidate& c : of_factor) {
    if (&c == best) continue;
    bool better = c.bytes != best->bytes ? c.bytes > best->bytes : bytes(f, c.largest) > bytes(f, best->largest);
    second = better ? best : second ? second : &c;
    if (better) best = &c;
  }
  int64_t total = 0;
  for (const Candidate& c : of_factor) total += c.bytes;
  const Function& function = *m_.functions[f];
  auto of = [&](const Candidate& c) { return "the layout of " + ir::value_name(function, c.largest); };
  int64_t moved = total - best->bytes, otherwise = total - second->bytes;
  conflicts_[{f, &n}] = {of(*best), of(*second), moved, otherwise};
  for (const Candidate& c : of_factor)
    if (&c != best)
      refuse(find(best->place), c.axes, {f, &n, c.place},
             fmt::format("that would lay {} bytes of tensors out anew, as it is {} bytes are", total - c.bytes, moved));
  return *best;
}

// Dimensions that ask for the same axis: none of them gets it at first, and later the one whose tensors have more
// bytes, so that the others move.
std::vector<size_t> Propagation::order(int f, const Node& n, const Tensor& t, const std::vector<Axes>& wanted,
                                       const std::vector<Candidate>& from, NodeState& state) {
  struct Wish {
    size_t dim;
    Axes axes;
    int64_t bytes = 0;
    ValueId largest = -1;
    bool contested = false;
  };
  std::vector<Wish> wishes;
  for (size_t d = 0; d < t.dims->size(); ++d) {
    Wish w{d, axes_of_dim(mesh_, (*t.dims)[d], state.factors, wanted)};
    if (w.axes.size() <= axes_[variable(f, t.value, static_cast<int>(d))].size()) continue;  // it has them
    for (int k : (*t.dims)[d])
      if (from[k].place >= 0) w.bytes += from[k].bytes, w.largest = from[k].largest;
    wishes.push_back(std::move(w));
  }
  for (Wish& a : wishes)
    for (Wish& b : wishes)
      if (&a < &b && overlap(mesh_, a.axes, b.axes)) a.contested = b.contested = true;
  std::stable_sort(wishes.begin(), wishes.end(), [&](const Wish& a, const Wish& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    return a.largest >= 0 && b.largest >= 0 && bytes(f, a.largest) > bytes(f, b.largest);
  });
  std::vector<size_t> out;
  const Wish* first = nullptr;
  for (const Wish& w : wishes) {
    state.contested |= w.contested;
    if (w.contested && !phase_.aggressive) continue;
    out.push_back(w.dim);
    if (!w.contested) continue;
    const Function& function = *m_.functions[f];
    auto of = [&](const Wish& x) {
      return fmt::format("{} along dimension {} of {}", ir::str(x.axes), x.dim, ir::value_name(function, t.value));
    };
    if (first && !conflicts_.count({f, &n})) conflicts_[{f, &n}] = {of(*first), of(w), w.bytes, first->bytes};
    first = first ? first : &w;
  }
  return out;
}

// As many of the axes as fit: in every value that has the dimension, an axis stands once and divides the extent.
bool Propagation::extend(int place, const Axes& axes, const Cause& cause) {
  int variable = find(place);
  if (axes.size() <= axes_[variable].size() || !is_prefix(axes_[variable], axes)) return false;
  const bool over_time = axes.size() == axes_[variable].size() + 1 && is_temporal(mesh_, {axes.back()});
  if (closed_[variable] == kAltogether || (closed_[variable] == kToRanks && !over_time))
    return refuse(variable, axes, cause, "it is closed");
  Axes longest = axes_[variable];
  for (size_t i = longest.size(); i < axes.size(); ++i) {
    Axes more = longest;
    more.push_back(axes[i]);
    if (const char* why = misfit(variable, more, true)) {
      refuse(variable, more, cause, why);
      break;
    }
    longest = std::move(more);
  }
  if (longest.size() == axes_[variable].size()) return false;
  set(variable, std::move(longest));
  because_[variable].emplace(axes_[variable].size(), std::make_pair(place, cause));
  return true;
}
bool Propagation::refuse(int variable, const Axes& axes, const Cause& cause, const std::string& why) {
  if (explains_) refused_[variable].insert_or_assign(ir::str(axes), std::make_pair(cause, why));
  return false;
}
// Why the dimension cannot have these axes; null: it can.
const char* Propagation::misfit(int variable, const Axes& axes, bool follows, bool allow_padding) const {
  auto is_part = [](const ir::AxisRef& a) { return a.size != 0; };
  if (follows && context_.options.deterministic && std::any_of(axes.begin(), axes.end(), is_part))
    return kPartOfAxis;
  if (const ir::MeshAxis* temporal = mesh_.temporal()) {
    auto at = std::find_if(axes.begin(), axes.end(), [&](const ir::AxisRef& a) { return a.name == temporal->name; });
    if (at != axes.end() && (at + 1 != axes.end() || at->size != 0)) return "microbatches are cut last, and whole";
    if (at != axes.end() && of_leaf_[variable]) return "state is there for all microbatches";
  }
  if (auto kept = kept_off_.find(variable); kept != kept_off_.end() && overlap(mesh_, axes, kept->second))
    return "the state leaf is replicated along them";
  for (int member : members_[variable]) {
    const Place& p = places_[member];
    const ir::Value& value = m_.functions[p.function]->values[p.value];
    if (!allow_padding && !divides(mesh_, axes, value.type.shape[p.dim])) return kIndivisible;
    if (follows && context_.options.deterministic && !has_granules(value.type.shape[p.dim])) return kNoGranules;
    Axes others;
    for (int d = 0; d < value.type.rank(); ++d) {
      const Axes& more = axes_[find(first_[p.function][p.value] + d)];
      if (d != p.dim) others.insert(others.end(), more.begin(), more.end());
    }
    if (value.sharding)
      others.insert(others.end(), value.sharding->replicated.begin(), value.sharding->replicated.end());
    if (overlap(mesh_, axes, others)) return "another dimension has them, or the value is replicated along them";
  }
  return nullptr;
}

// Along the manual axes one side is cut and the other is not; the axes that follow them are the same on both.
bool Propagation::relate_border(int f, const Node& n) {
  bool enters = n.op->layout_role == ir::LayoutRole::kEnter;
  ValueId full = enters ? n.operands[0] : n.results[0], part = enters ? n.results[0] : n.operands[0];
  const ir::Sharding& parts = n.attrs.get_sharding("parts");
  const Axes& manual = n.attrs.get_axes("axes");
  bool changed = false;
  for (size_t d = 0; d < parts.dims.size(); ++d) {
    const Axes& cut = parts.dims[d].axes;
    int whole_at = first_[f][full] + static_cast<int>(d), part_at = first_[f][part] + static_cast<int>(d);
    Axes outside = handed_on(find(whole_at)), inside = handed_on(find(part_at));
    if (is_prefix(cut, outside)) {
      auto first = outside.begin() + static_cast<std::ptrdiff_t>(cut.size());
      auto end = std::find_if(first, outside.end(), [&](const ir::AxisRef& a) {
        return std::any_of(manual.begin(), manual.end(), [&](const ir::AxisRef& m) { return m.name == a.name; });
      });
      changed |= extend(part_at, Axes(first, end), {f, &n, whole_at});
    }
    Axes all = cut;
    all.insert(all.end(), inside.begin(), inside.end());
    changed |= extend(whole_at, all, {f, &n, part_at});
  }
  return changed;
}

bool Propagation::relate_barrier(int f, const Node& n) {
  std::string direction = n.attrs.get_string("direction");
  if (direction == "strong") direction = priority_ == 0 ? "both" : "none";
  bool both = direction == "both";
  return pass_on(f, n, both || direction == "forward", both || direction == "backward");
}

bool Propagation::pass_on(int f, const Node& n, bool forward, bool backward) {
  bool changed = false;
  for (int d = 0; d < m_.functions[f]->type(n.results[0]).rank(); ++d) {
    int from = first_[f][n.operands[0]] + d, to = first_[f][n.results[0]] + d;
    if (forward) changed |= extend(to, handed_on(find(from)), {f, &n, from});
    if (backward) changed |= extend(from, handed_on(find(to)), {f, &n, to});
  }
  return changed;
}

}  // namespace nabla::passes
