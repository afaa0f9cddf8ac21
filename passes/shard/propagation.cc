#include "passes/shard/propagation.h"

#include <algorithm>
#include <numeric>

#include "ir/control_ties.h"
#include "passes/rewrite.h"

namespace nabla::passes {

using ir::Axes;
using ir::Factors;
using ir::Function;
using ir::Node;
using ir::ValueId;

Result<ir::Module> Propagation::run() {
  number();
  tie();
  for (size_t v = 0; v < parent_.size(); ++v) members_[find(static_cast<int>(v))].push_back(static_cast<int>(v));
  // The user's priorities before those of ops, these before what a conflict is worth: what comes later adds to what is
  // there, and takes nothing away.
  for (int priority : priorities()) {
    priority_ = priority;
    NABLA_TRY(annotate(priority));
    // Late axes wait only for others of their own priority, which is 0.
    if (priority == 0) hold_late_axes();
    for (bool waiting : {true, false}) {
      if (waiting && held_.empty()) continue;
      if (!waiting) held_.clear();
      for (bool movement : {true, false})
        for (bool aggressive : {false, true}) to_fixpoint({movement, aggressive});
    }
  }
  report_conflicts();
  return result();
}

void Propagation::hold_late_axes() {
  for (const LateAxis& late : late_) {
    auto f = index_.find(late.function);
    if (f == index_.end()) continue;
    const Function& function = *m_.functions[static_cast<size_t>(f->second)];
    const std::vector<ValueId>& values = late.is_result ? function.results : function.params;
    held_[variable(f->second, values[late.index], late.dim)].insert(late.axis);
  }
}
Axes Propagation::handed_on(int variable) const {
  const Axes& all = axes_[static_cast<size_t>(variable)];
  auto held = held_.find(variable);
  if (held == held_.end()) return all;
  return {all.begin(), std::find_if(all.begin(), all.end(), [&](const ir::AxisRef& a) { return held->second.contains(a.name); })};
}

void Propagation::to_fixpoint(Phase phase) {
  phase_ = phase;
  for (std::vector<NodeState>& states : nodes_)
    for (NodeState& s : states)
      if (!phase.aggressive || s.contested) s.seen = -1;
  for (bool changed = true; changed;) {
    changed = false;
    for (bool forward : {true, false})
      for (size_t f = 0; f < m_.functions.size(); ++f) changed |= sweep(static_cast<int>(f), forward);
  }
}

ir::ShardingRef Propagation::sharding(int f, ValueId v) const {
  Layout out;
  const ir::Type& type = m_.functions[f]->type(v);
  for (int d = 0; d < type.rank(); ++d) out.dims.push_back(axes_[variable(f, v, d)]);
  return sharding_of(out, mesh_, type);
}

ir::Module Propagation::result() const {
  ir::Module out = m_;
  out.stage = ir::Stage::kSharded;
  for (size_t f = 0; f < out.functions.size(); ++f) {
    Function function = *out.functions[f];
    for (size_t v = 0; v < function.values.size(); ++v)
      function.values[v].sharding = sharding(static_cast<int>(f), static_cast<ValueId>(v));
    out.functions[f] = std::make_shared<const Function>(std::move(function));
  }
  for (size_t leaf = 0; leaf < leaves_.size(); ++leaf)
    if (!leaves_[leaf].empty()) out.state[leaf].sharding = sharding(leaves_[leaf][0].first, leaves_[leaf][0].second);
  return out;
}

void Propagation::number() {
  for (size_t f = 0; f < m_.functions.size(); ++f) {
    const Function& function = *m_.functions[f];
    index_[function.name] = static_cast<int>(f);
    nodes_.emplace_back(function.nodes.size());
    free_.push_back(made_of_scalars(function));
    first_.emplace_back();
    for (size_t v = 0; v < function.values.size(); ++v) {
      first_.back().push_back(static_cast<int>(places_.size()));
      for (int d = 0; d < function.values[v].type.rank(); ++d)
        places_.push_back({static_cast<int>(f), static_cast<ValueId>(v), d});
    }
  }
  parent_.resize(places_.size());
  std::iota(parent_.begin(), parent_.end(), 0);
  axes_.resize(places_.size());
  closed_.resize(places_.size());
  of_leaf_.resize(places_.size());
  changed_.resize(places_.size(), 0);
  members_.resize(places_.size());
}
void Propagation::join(int f, ValueId a, int g, ValueId b, int skip_a, int skip_b) {
  int rank = m_.functions[f]->type(a).rank() - skip_a;
  for (int d = 0; d < rank; ++d) parent_[variable(f, a, d + skip_a)] = variable(g, b, d + skip_b);
}

void Propagation::tie() {
  for (size_t f = 0; f < m_.functions.size(); ++f)
    for (const Node& n : m_.functions[f]->nodes)
      if (n.op->lower == ir::Lowering::kControl)
        tie_control(static_cast<int>(f), n);
      else if (n.op->layout_role == ir::LayoutRole::kShardAs)
        for (ValueId v : n.results) join(static_cast<int>(f), n.results[0], static_cast<int>(f), v);
  std::vector<std::vector<std::pair<int, ValueId>>> of_leaf(m_.state.size());
  for (const ir::Entry& e : m_.entries) {
    int f = index_.at(e.function);
    const Function& function = *m_.functions[f];
    for (size_t i = 0; i < e.reads.size(); ++i) of_leaf[e.reads[i]].push_back({f, function.params[i]});
    for (size_t i = 0; i < e.writes.size(); ++i) of_leaf[e.writes[i]].push_back({f, function.results[i]});
  }
  for (const auto& all : of_leaf)
    for (size_t i = 1; i < all.size(); ++i) join(all[0].first, all[0].second, all[i].first, all[i].second);
  leaves_ = of_leaf;
  for (size_t leaf = 0; leaf < leaves_.size(); ++leaf)
    for (int d = 0; !leaves_[leaf].empty() && d < m_.state[leaf].type.rank(); ++d) {
      int v = variable(leaves_[leaf][0].first, leaves_[leaf][0].second, d);
      of_leaf_[v] = true;
      const ir::ShardingRef& s = m_.state[leaf].sharding;
      if (s && !s->replicated.empty()) kept_off_[v].insert(kept_off_[v].end(), s->replicated.begin(), s->replicated.end());
    }
}

void Propagation::tie_control(int f, const Node& n) {
  for (const auto& [a, b] : ir::control_ties(m_, *m_.functions[f], n))
    join(index_.at(a.function->name), a.value, index_.at(b.function->name), b.value, a.skip, b.skip);
}

// ---- What the user said.
std::set<int> Propagation::priorities() const {
  std::set<int> out = {0};
  auto add = [&](const ir::Sharding& s) {
    for (const ir::DimSharding& d : s.dims) out.insert(d.priority);
  };
  for (const ir::FunctionPtr& f : m_.functions) {
    for (const ir::Value& v : f->values)
      if (v.sharding) add(*v.sharding);
    for (const Node& n : f->nodes)
      if (const ir::Attr* s = n.attrs.find("sharding")) add(std::get<ir::Sharding>(*s));
  }
  for (const ir::StateLeaf& leaf : m_.state)
    if (leaf.sharding) add(*leaf.sharding);
  return out;
}

namespace {

LocationRef location_of(const Function& f, ValueId v) {
  int maker = ir::producers(f)[v];
  return maker < 0 ? f.location : f.nodes[maker].location;
}

// Where an entry writes it, the leaf of the state is what it is known by.
std::string described(const ir::Module& m, const Function& f, ValueId v) {
  if (const ir::Entry* entry = m.entry_of(f.name); entry && ir::producers(f)[v] >= 0)
    for (size_t r = 0; r < entry->writes.size(); ++r)
      if (f.results[r] == v)
        return fmt::format("the new value of state leaf {} in @{}", m.state[static_cast<size_t>(entry->writes[r])].name, f.name);
  return ir::value_phrase(f, v);
}

}  // namespace

Result<Ok> Propagation::annotate(int priority) {
  for (size_t f = 0; f < m_.functions.size(); ++f) {
    const Function& function = *m_.functions[f];
    auto value = [&](ValueId v, const ir::Sharding& s, bool constraint = false) {
      return annotate(static_cast<int>(f), v, &s, priority, {described(m_, function, v), location_of(function, v), constraint});
    };
    // Describing a value looks through the whole function: only those of which something is said are.
    for (size_t v = 0; v < function.values.size(); ++v)
      if (const ir::ShardingRef& s = function.values[v].sharding) NABLA_TRY(value(static_cast<ValueId>(v), *s));
    for (const Node& n : function.nodes)
      if (const ir::Attr* s = n.attrs.find("sharding")) NABLA_TRY(value(n.results[0], std::get<ir::Sharding>(*s), true));
  }
  for (size_t leaf = 0; leaf < leaves_.size(); ++leaf)
    if (!leaves_[leaf].empty())
      NABLA_TRY(annotate(leaves_[leaf][0].first, leaves_[leaf][0].second, m_.state[leaf].sharding.get(), priority,
                         {"state leaf " + m_.state[leaf].name, m_.state[leaf].location}));
  return Ok{};
}

Result<Ok> Propagation::annotate(int f, ValueId v, const ir::Sharding* s, int priority, const Said& said) {
  for (size_t d = 0; s && d < s->dims.size(); ++d) {
    const ir::DimSharding& wish = s->dims[d];
    if (wish.priority != priority || (wish.open && wish.axes.empty())) continue;
    int at = variable(f, v, static_cast<int>(d));
    // An open layout is the beginning of what the dimension gets.
    bool grows = !closed_[at] && is_prefix(axes_[at], wish.axes);
    bool holds = grows || (wish.open ? is_prefix(wish.axes, axes_[at]) : axes_[at] == wish.axes);
    const char* unfit = holds && axes_[at].size() < wish.axes.size() ? misfit(at, wish.axes, false, s->allow_padding) : nullptr;
    if (!holds || unfit) {
      // What came before by a stronger priority stays.
      if (priority == 0 || unfit == kIndivisible) return contradiction(f, v, static_cast<int>(d), wish, said, unfit);
      if (!unfit && of_leaf_[at] && beside(f, v, *s, static_cast<int>(d), said)) continue;
      context_.remarks.push_back(
          {ir::RemarkKind::kWeakLayout, said.who,
           fmt::format("dimension {} of {} is not laid out along {}, which was asked for with less weight (priority {}): {}", d,
                       said.who, ir::str(wish.axes), wish.priority,
                       unfit ? unfit : "it lies along " + ir::str(axes_[at]) + " already")});
      continue;
    }
    if (axes_[at].size() < wish.axes.size() || (said_by_.count(at) == 0)) said_by_[at] = said;
    if (axes_[at].size() < wish.axes.size()) {
      set(at, wish.axes);
      because_[at].emplace(wish.axes.size(), std::make_pair(at, Cause{f, nullptr, -1}));
    }
    if (!wish.open) closed_[at] = std::max(closed_[at], said.constraint ? kToRanks : kAltogether);
  }
  return Ok{};
}

bool Propagation::beside(int f, ValueId v, const ir::Sharding& s, int dim, const Said& said) {
  const Axes& wish = s.dims[static_cast<size_t>(dim)].axes;
  const int rank = static_cast<int>(s.dims.size()), first = variable(f, v, dim);
  for (bool shared : {false, true})
    for (int d = dim; d < rank; ++d) {
      int at = variable(f, v, d);
      const bool taken = closed_[at] || overlap(mesh_, axes_[at], wish) || (d != dim && !s.dims[static_cast<size_t>(d)].axes.empty());
      if (taken || axes_[at].empty() == shared) continue;
      Axes axes = axes_[at];
      axes.insert(axes.end(), wish.begin(), wish.end());
      if (misfit(at, axes, true)) continue;
      context_.remarks.push_back(
          {ir::RemarkKind::kMovedAxes, said.who,
           fmt::format("{} is cut along {} in dimension {}{}: dimension {}, where that was asked for with less weight (priority {}), "
                       "lies along {} already", said.who, ir::str(wish), d,
                       shared ? fmt::format(", beside {}", ir::str(axes_[at])) : "", dim, s.dims[static_cast<size_t>(dim)].priority,
                       ir::str(axes_[first]))});
      said_by_[at] = said;
      because_[at].emplace(axes.size(), std::make_pair(at, Cause{f, nullptr, -1}));
      set(at, std::move(axes));
      return true;
    }
  return false;
}

Diagnostic Propagation::contradiction(int f, ValueId v, int dim, const ir::DimSharding& wish, const Said& said,
                                      const char* unfit) const {
  const ir::Type& type = m_.functions[f]->type(v);
  int at = variable(f, v, dim);
  if (unfit) {
    Diagnostic d = error(Code::kBadSharding,
                         "dimension {} of {} is laid out along {} by {}, and so is all that has to agree "
                         "with it: {}",
                         dim, type.str(), ir::str(wish.axes), said.who, unfit);
    d.location = said.at;
    return d;
  }
  const Said& other = said_by_.at(at);
  Diagnostic d =
      error(Code::kBadSharding, "dimension {} of {} is laid out along {} by {}, and along {} by {}, which has to agree",
            dim, type.str(), ir::str(axes_[at]), other.who, ir::str(wish.axes), said.who);
  d.location = said.at ? said.at : other.at;
  if (other.at && other.at != d.location)
    d.notes.push_back(fmt::format("{} is laid out{}", other.who, at_place(other.at)));
  return d;
}

}  // namespace nabla::passes
