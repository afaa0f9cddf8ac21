#include "passes/shard/propagate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "passes/rewrite.h"
#include "passes/shard/layout.h"
#include "passes/shard/merge_cuts.h"
#include "passes/shard/open_composites.h"
#include "passes/shard/rules/rules.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Factors;
using ir::Function;
using ir::FunctionPtr;
using ir::Mesh;
using ir::Node;
using ir::ValueId;

/// A dimension of a value: what the algorithm gives axes to. Dimensions that must agree (a carry in and out of a loop, a
/// leaf in two entries) are one.
struct Place {
  int function;
  ValueId value;
  int dim;
};

class Propagation {
 public:
  /// `explains`: keeps what did not come about.
  Propagation(const ir::Module& m, bool explains, PassContext& context)
      : m_(m), mesh_(*m.mesh()), explains_(explains), context_(context) {}

  /// Why the value is laid out as it is: by dimension, back to what the user said, and what did not come about.
  std::string explain(const std::string& function, ValueId value) const {
    int f = index_.at(function);
    const ir::Type& type = m_.functions[f]->type(value);
    std::string out = fmt::format("{} {} in @{}\n", ir::value_name(*m_.functions[f], value), type.str(), function);
    for (int d = 0; d < type.rank(); ++d) {
      const Axes& axes = axes_[variable(f, value, d)];
      out += fmt::format("  dimension {} ({}): {}\n", d, type.shape[d].str(), axes.empty() ? "whole" : "along " + ir::str(axes));
      out += chain(variable(f, value, d));
    }
    return out;
  }

  Result<ir::Module> run() {
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

 private:
  // ---- Variables: one per dimension, joined where they must agree.
  void number() {
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
  int variable(int f, ValueId v, int d) const { return find(first_[f][v] + d); }
  int find(int v) const {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }
  void join(int f, ValueId a, int g, ValueId b, int skip_a = 0, int skip_b = 0) {
    int rank = m_.functions[f]->type(a).rank() - skip_a;
    for (int d = 0; d < rank; ++d) parent_[variable(f, a, d + skip_a)] = variable(g, b, d + skip_b);
  }

  void tie() {
    for (size_t f = 0; f < m_.functions.size(); ++f)
      for (const Node& n : m_.functions[f]->nodes)
        if (n.op->lower == ir::Lowering::kControl) tie_control(static_cast<int>(f), n);
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

  void tie_control(int f, const Node& n) {
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
  Result<Ok> annotate() {
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
  Result<Ok> annotate(int f, ValueId v, const ir::Sharding* s, const std::string& who) {
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
  Diagnostic contradiction(int f, ValueId v, int dim, const ir::DimSharding& said, const std::string& who) const {
    const Function& function = *m_.functions[f];
    int at = variable(f, v, dim);
    Diagnostic d = error(Code::kBadSharding, "dimension {} of {} is laid out along {} by {}, and along {} by {}, which has "
                         "to agree", dim, function.type(v).str(), ir::str(axes_[at]), said_by_.at(at),
                         ir::str(said.axes), who);
    std::vector<int> makers = ir::producers(function);
    d.location = makers[v] < 0 ? function.location : function.nodes[makers[v]].location;
    return d;
  }

  // ---- One node.
  bool sweep(int f, bool forward) {
    const Function& function = *m_.functions[f];
    bool changed = false;
    for (size_t i = 0; i < function.nodes.size(); ++i) {
      const Node& n = function.nodes[forward ? i : function.nodes.size() - 1 - i];
      if (n.op->lower != ir::Lowering::kControl && n.op->factors.exists()) changed |= relate(f, n);
    }
    return changed;
  }

  // The tensors of a node with the factors of their dimensions.
  struct Tensor {
    ValueId value;
    const Factors::Tensor* dims;
  };
  static std::vector<Tensor> tensors(const Node& n, const Factors& factors) {
    std::vector<Tensor> out;
    for (size_t i = 0; i < n.results.size(); ++i) out.push_back({n.results[i], &factors.results[i]});
    for (size_t i = 0; i < n.operands.size(); ++i) out.push_back({n.operands[i], &factors.operands[i]});
    return out;
  }

  bool relate(int f, const Node& n) {
    const Function& function = *m_.functions[f];
    auto [known, fresh] = factors_.try_emplace(&n);
    if (fresh) known->second = n.op->factors(typed(function, n));
    const Factors& factors = known->second;
    std::vector<Tensor> all = tensors(n, factors);
    std::vector<int> from(factors.factors.size(), -1);
    std::vector<Axes> wanted = agree(f, n, factors, all, from);
    bool changed = false;
    for (const Tensor& t : all)
      for (size_t d = 0; d < t.dims->size(); ++d) {
        Axes axes = axes_of_dim(mesh_, (*t.dims)[d], factors, wanted);
        if (axes.empty()) continue;
        auto first = std::find_if((*t.dims)[d].begin(), (*t.dims)[d].end(), [&](int k) { return from[k] >= 0; });
        changed |= extend(first_[f][t.value] + static_cast<int>(d), axes, {f, &n, first == (*t.dims)[d].end() ? -1 : from[*first]});
      }
    return hand_on(f, n) || changed;
  }

  // Along the dimensions that a rule of the op ties: the longest of their axes.
  bool hand_on(int f, const Node& n) {
    const OpRule* rule = rule_of(n.op->name);
    if (!rule || !rule->ties) return false;
    auto [known, fresh] = ties_.try_emplace(&n);
    if (fresh) known->second = rule->ties(typed(*m_.functions[f], n));
    bool changed = false;
    for (const std::vector<TensorDim>& tie : known->second) {
      int from = -1;
      auto place = [&](const TensorDim& t) {
        return first_[f][(t.result ? n.results : n.operands)[t.index]] + static_cast<int>(t.dim);
      };
      for (const TensorDim& t : tie)
        if (from < 0 || axes_[find(place(t))].size() > axes_[find(from)].size()) from = place(t);
      for (const TensorDim& t : tie) changed |= extend(place(t), axes_[find(from)], {f, &n, from});
    }
    return changed;
  }

  // The axes of every factor: of those that its tensors have, the longest; where neither continues the other, those of
  // the larger tensor. `places`: where they are from.
  std::vector<Axes> agree(int f, const Node& n, const Factors& factors, const std::vector<Tensor>& all,
                          std::vector<int>& places) {
    std::vector<Axes> out(factors.factors.size());
    std::vector<const Tensor*> from(factors.factors.size());
    for (const Tensor& t : all)
      for (size_t d = 0; d < t.dims->size(); ++d) {
        const std::vector<int>& dim = (*t.dims)[d];
        auto parts = axes_of_factors(mesh_, axes_[variable(f, t.value, static_cast<int>(d))], dim, factors);
        for (size_t k = 0; parts && k < dim.size(); ++k) {
          const Axes& axes = (*parts)[k];
          if (axes.empty() || !can_split(factors.factors[dim[k]])) continue;
          Axes& best = out[dim[k]];
          bool longer = is_prefix(best, axes), conflict = !longer && !is_prefix(axes, best);
          if (conflict) {
            const Tensor& other = *from[dim[k]];
            bool larger = bytes(f, t.value) > bytes(f, other.value);
            conflicts_[{f, &n - m_.functions[f]->nodes.data()}] = {larger ? t.value : other.value,
                                                                  larger ? other.value : t.value};
            if (!larger) continue;
          }
          if (!longer && !conflict) continue;
          best = axes, from[dim[k]] = &t;
          places[dim[k]] = first_[f][t.value] + static_cast<int>(d);
        }
      }
    return out;
  }
  int64_t bytes(int f, ValueId v) const { return m_.functions[f]->type(v).bytes().bounds().max; }

  /// Which node hands axes on, and from which dimension.
  struct Cause {
    int function;
    const Node* node;
    int from;  ///< a place
  };

  // As many of the axes as fit: in every value that has the dimension, an axis stands once and divides the extent.
  bool extend(int place, const Axes& axes, const Cause& cause) {
    int variable = find(place);
    if (axes.size() <= axes_[variable].size() || !is_prefix(axes_[variable], axes)) return false;
    if (closed_[variable]) return refuse(variable, axes, cause, "it is closed");
    Axes longest = axes_[variable];
    for (size_t i = longest.size(); i < axes.size(); ++i) {
      Axes more = longest;
      more.push_back(axes[i]);
      if (const char* why = misfit(variable, more)) {
        refuse(variable, more, cause, why);
        break;
      }
      longest = std::move(more);
    }
    if (longest.size() == axes_[variable].size()) return false;
    axes_[variable] = std::move(longest);
    because_.insert_or_assign(variable, std::make_pair(place, cause));
    return true;
  }
  bool refuse(int variable, const Axes& axes, const Cause& cause, const char* why) {
    if (explains_) refused_[variable].insert_or_assign(ir::str(axes), std::make_pair(cause, why));
    return false;
  }
  // Why the dimension cannot have these axes; null: it can.
  const char* misfit(int variable, const Axes& axes) const {
    for (int member : members_[variable]) {
      const Place& p = places_[member];
      const ir::Value& value = m_.functions[p.function]->values[p.value];
      if (!divides(mesh_, axes, value.type.shape[p.dim])) return "the extent is not divisible so";
      Axes others;
      for (int d = 0; d < value.type.rank(); ++d) {
        const Axes& more = axes_[find(first_[p.function][p.value] + d)];
        if (d != p.dim) others.insert(others.end(), more.begin(), more.end());
      }
      if (value.sharding) others.insert(others.end(), value.sharding->replicated.begin(), value.sharding->replicated.end());
      if (overlap(mesh_, axes, others)) return "another dimension has them, or the value is replicated along them";
    }
    return nullptr;
  }

  // ---- Explanations.
  std::string name_of(int place) const {
    const Place& p = places_[place];
    return fmt::format("dimension {} of {}", p.dim, ir::value_name(*m_.functions[p.function], p.value));
  }
  static std::string through(const Cause& cause) {
    const LocationRef& at = cause.node->location;
    return at ? fmt::format("{} at {}:{}", cause.node->op->name, at->file, at->line) : cause.node->op->name;
  }
  // One line for each op on the way back to what was said.
  std::string chain(int variable) const {
    std::string out;
    for (std::set<int> seen; seen.insert(variable).second;) {
      for (const auto& [axes, refusal] : refused_of(variable))
        out += fmt::format("    not along {}, as {} of {} has it: {}\n", axes, through(refusal.first),
                           refusal.first.from < 0 ? "another" : name_of(refusal.first.from), refusal.second);
      auto because = because_.find(variable);
      if (because == because_.end()) {
        auto said = said_by_.find(variable);
        if (said != said_by_.end()) out += fmt::format("    said by {}\n", said->second);
        return out;
      }
      const auto& [place, cause] = because->second;
      if (cause.from < 0) return out;
      out += fmt::format("    {} from {} by {}\n", name_of(place), name_of(cause.from), through(cause));
      variable = find(cause.from);
    }
    return out;
  }
  std::map<std::string, std::pair<Cause, const char*>> refused_of(int variable) const {
    auto found = refused_.find(variable);
    return found == refused_.end() ? std::map<std::string, std::pair<Cause, const char*>>() : found->second;
  }

  // ---- The result.
  void report_conflicts() {
    for (const auto& [where, who] : conflicts_) {
      const Function& f = *m_.functions[where.first];
      const Node& n = f.nodes[where.second];
      std::string at = n.location ? fmt::format(" at {}:{}", n.location->file, n.location->line) : "";
      context_.remarks.push_back(fmt::format("{}{}: the layout of {} wins, {} is laid out anew", n.op->name, at,
                                             ir::value_name(f, who.first), ir::value_name(f, who.second)));
    }
  }

  ir::ShardingRef sharding(int f, ValueId v) const {
    Layout out;
    for (int d = 0; d < m_.functions[f]->type(v).rank(); ++d) out.dims.push_back(axes_[variable(f, v, d)]);
    return sharding_of(out);
  }

  ir::Module result() const {
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

  const ir::Module& m_;
  const Mesh& mesh_;
  bool explains_;
  PassContext& context_;
  std::map<std::string, int> index_;           // of functions
  std::vector<std::vector<int>> first_;        // variable of dimension 0, per function and value
  std::vector<Place> places_;                  // per variable
  mutable std::vector<int> parent_;            // union-find
  std::vector<std::vector<int>> members_;      // of the roots
  std::vector<Axes> axes_;                     // of the roots
  std::vector<char> closed_;                   // of the roots
  std::map<int, std::string> said_by_;         // of those that were annotated: by whom
  std::map<int, std::pair<int, Cause>> because_;  // of those that got axes: the place where, and the last cause
  std::map<int, std::map<std::string, std::pair<Cause, const char*>>> refused_;  // by axes: what did not come about
  std::vector<std::vector<std::pair<int, ValueId>>> leaves_;  // where each state leaf is read and written
  std::map<const Node*, Factors> factors_;
  std::map<const Node*, Ties> ties_;
  std::map<std::pair<int, int64_t>, std::pair<ValueId, ValueId>> conflicts_;  // by function and node: who won, who lost
};

}  // namespace

namespace {

struct Propagated {
  std::shared_ptr<const ir::Module> flat;  // composites opened, cuts merged
  std::unique_ptr<Propagation> by;
  ir::Module sharded;
};

Result<Propagated> propagated(const ir::Module& module, bool explains, PassContext& context) {
  Propagated out{std::make_shared<const ir::Module>(module), nullptr, {}};
  size_t remarks = context.remarks.size();
  while (true) {
    out.by = std::make_unique<Propagation>(*out.flat, explains, context);
    out.sharded = NABLA_TRY(out.by->run());
    auto next = open_composites(*out.flat, out.sharded, context);
    if (!next) next = merge_cuts(*out.flat, out.sharded, context);
    if (!next) return out;
    out.flat = std::move(next);
    context.remarks.resize(remarks);
  }
}

}  // namespace

Result<ir::Module> propagate(const ir::Module& module, PassContext& context) {
  if (module.mesh()) return std::move(NABLA_TRY(propagated(module, false, context)).sharded);
  ir::Module out = module;
  out.stage = ir::Stage::kSharded;
  return out;
}

Result<std::string> explain_layout(const ir::Module& module, const std::string& function, const std::string& value,
                                   PassContext& context) {
  if (!module.mesh()) return error(Code::kBadSharding, "the module has no mesh, so that nothing is laid out");
  Propagated made = NABLA_TRY(propagated(module, true, context));
  const Function* f = made.sharded.find(function);
  if (!f) return error(Code::kUnknownName, "there is no function @{}", function);
  std::vector<std::string> known;
  for (size_t v = 0; v < f->values.size(); ++v) {
    std::string name = ir::value_name(*f, static_cast<ValueId>(v));
    if (name == value || name == "%" + value) return made.by->explain(function, static_cast<ValueId>(v));
    known.push_back(name);
  }
  Diagnostic d = error(Code::kUnknownName, "@{} has no value {}{}", function, value, did_you_mean(value, known));
  d.help = "`nablac opt --pipeline-to sharded` prints all values with their layouts";
  return d;
}

}  // namespace nabla::passes
