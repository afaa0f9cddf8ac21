#include "passes/shard/propagation.h"

#include <algorithm>
#include <numeric>

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
  NABLA_TRY(annotate());
  for (bool changed = true; changed;) {
    changed = false;
    for (bool forward : {true, false})
      for (size_t f = 0; f < m_.functions.size(); ++f) changed |= sweep(static_cast<int>(f), forward);
  }
  report_conflicts();
  return result();
}

ir::ShardingRef Propagation::sharding(int f, ValueId v) const {
  Layout out;
  for (int d = 0; d < m_.functions[f]->type(v).rank(); ++d) out.dims.push_back(axes_[variable(f, v, d)]);
  return sharding_of(out);
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
      else if (n.op->name == "shard_as")
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
}

void Propagation::tie_control(int f, const Node& n) {
  const Function& outer = *m_.functions[f];
  ir::ControlFlow c = ir::control_of(outer, n);
  bool branch = c.kind == ir::ControlFlow::Kind::kBranch;
  size_t index = branch ? 1 : 0, carries = static_cast<size_t>(c.consts + c.carries);
  std::vector<std::string> functions = c.functions;
  if (!c.unasked.empty()) functions.insert(functions.begin(), c.unasked);
  bool asks = c.kind == ir::ControlFlow::Kind::kWhile || !c.unasked.empty();
  for (const std::string& name : functions) {
    int g = index_.at(name);
    const Function& body = *m_.functions[g];
    for (size_t i = 0; i < body.params.size(); ++i) {
      bool slice = !branch && i >= carries;
      join(f, n.operands[i + index], g, body.params[i], slice ? 1 : 0);
    }
    if (asks && &name == &functions.front()) continue;  // a condition, whose result is one predicate
    for (size_t r = 0; r < body.results.size(); ++r) {
      bool stacked = !branch && r >= static_cast<size_t>(c.carries);
      join(f, n.results[r], g, body.results[r], stacked ? 1 : 0);
      if (!branch && !stacked) join(g, body.results[r], g, body.params[static_cast<size_t>(c.consts) + r]);
    }
  }
}

// ---- What the user said.
Result<Ok> Propagation::annotate() {
  for (size_t f = 0; f < m_.functions.size(); ++f) {
    const Function& function = *m_.functions[f];
    // Describing a value looks through the whole function: only those of which something is said are.
    for (size_t v = 0; v < function.values.size(); ++v)
      if (const ir::ShardingRef& s = function.values[v].sharding)
        NABLA_TRY(annotate(static_cast<int>(f), static_cast<ValueId>(v), s.get(),
                           ir::describe_value(function, static_cast<ValueId>(v))));
    for (const Node& n : function.nodes)
      if (const ir::Attr* s = n.attrs.find("sharding"))
        NABLA_TRY(annotate(static_cast<int>(f), n.results[0], &std::get<ir::Sharding>(*s),
                           ir::describe_value(function, n.results[0])));
  }
  for (size_t leaf = 0; leaf < leaves_.size(); ++leaf)
    if (!leaves_[leaf].empty())
      NABLA_TRY(annotate(leaves_[leaf][0].first, leaves_[leaf][0].second, m_.state[leaf].sharding.get(),
                         "state leaf " + m_.state[leaf].name));
  return Ok{};
}
Result<Ok> Propagation::annotate(int f, ValueId v, const ir::Sharding* s, const std::string& who) {
  for (size_t d = 0; s && d < s->dims.size(); ++d) {
    const ir::DimSharding& said = s->dims[d];
    if (said.open && said.axes.empty()) continue;
    int at = variable(f, v, static_cast<int>(d));
    // An open layout is the beginning of what the dimension gets.
    bool holds = said.open ? is_prefix(said.axes, axes_[at]) || (!closed_[at] && is_prefix(axes_[at], said.axes))
                           : axes_[at] == said.axes || (!closed_[at] && is_prefix(axes_[at], said.axes));
    if (!holds) return contradiction(f, v, static_cast<int>(d), said, who);
    if (axes_[at].size() < said.axes.size() || (said_by_.count(at) == 0)) said_by_[at] = who;
    if (axes_[at].size() < said.axes.size()) axes_[at] = said.axes;
    closed_[at] = closed_[at] || !said.open;
  }
  return Ok{};
}
Diagnostic Propagation::contradiction(int f, ValueId v, int dim, const ir::DimSharding& said,
                                      const std::string& who) const {
  const Function& function = *m_.functions[f];
  int at = variable(f, v, dim);
  Diagnostic d = error(Code::kBadSharding,
                       "dimension {} of {} is laid out along {} by {}, and along {} by {}, which has "
                       "to agree",
                       dim, function.type(v).str(), ir::str(axes_[at]), said_by_.at(at), ir::str(said.axes), who);
  std::vector<int> makers = ir::producers(function);
  d.location = makers[v] < 0 ? function.location : function.nodes[makers[v]].location;
  return d;
}

}  // namespace nabla::passes
