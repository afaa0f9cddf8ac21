// Loops hand on only what they need, and compute only what changes.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "ir/cost/least_work.h"
#include "passes/rewrite.h"
#include "passes/simplify/simplify.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::FunctionPtr;
using ir::Node;
using ir::Val;
using ir::ValueId;

/// Names of the collectives that may move out of loops.
using CollectivesThatLeave = std::set<std::string>;

/// The body of one loop, seen by what each of its values depends on, and what of it stays.
class LoopBody {
 public:
  /// `operands` are the loop's, as values of the function that is being built; `used` says which results somebody uses.
  LoopBody(FunctionPtr body, ir::ControlFlow flow, std::vector<Val> operands, std::vector<bool> used,
           const ir::Module& module, const CollectivesThatLeave& leaves)
      : f_(std::move(body)),
        module_(module),
        flow_(std::move(flow)),
        operands_(std::move(operands)),
        used_(std::move(used)),
        leaves_(leaves) {
    consts_ = static_cast<size_t>(flow_.consts), carries_ = static_cast<size_t>(flow_.carries);
    index_.assign(f_->values.size(), -1);
    for (size_t i = 0; i < f_->params.size(); ++i) index_[f_->params[i]] = static_cast<int>(i);
    find_equal_params();
    find_equal_results();
  }

  const Function& function() const { return *f_; }
  const ir::ControlFlow& flow() const { return flow_; }
  bool is_carry(size_t param) const { return param >= consts_ && param < consts_ + carries_; }
  bool constant(size_t param) const { return constant_[param]; }
  size_t twin(size_t param) const { return twin_[param]; }
  size_t twin_result(size_t result) const { return twin_result_[result]; }
  Val operand(size_t param) const { return operands_[param]; }
  /// The parameter that a value is, in the place of those that equal it; -1: none.
  int param_of(ValueId id) const { return index_[id] < 0 ? -1 : static_cast<int>(twin_[index_[id]]); }

  /// Decides what stays, given the parameters that conditions read.
  void decide(const std::vector<bool>& asked) {
    keep_.assign(f_->results.size(), false);
    for (size_t r = 0; r < keep_.size(); ++r)
      if (used_[r] && !stands_outside(r)) keep_[twin_result_[r]] = true;
    for (bool grown = true; grown;) {
      place_nodes();
      grown = false;
      for (size_t i = 0; i < f_->params.size(); ++i)
        if (asked[i]) inside_[f_->params[twin_[i]]] = true;
      for (size_t k = 0; k < carries_; ++k) {
        size_t param = consts_ + k;
        bool needed = inside_[f_->params[param]] && twin_[param] == param && !constant_[param];
        if (needed && !keep_[k]) keep_[k] = grown = true;
      }
    }
  }

  bool keeps_result(size_t r) const { return keep_[r]; }
  bool reads(size_t param) const { return twin_[param] == param && inside_[f_->params[param]]; }
  bool inside(const Node& node) const { return place(node).inside; }
  bool outside(const Node& node) const { return place(node).outside; }
  /// Computed outside, read inside: in the order of the nodes.
  const std::vector<ValueId>& handed_in() const { return handed_in_; }
  /// What a result is without the loop, where it is that.
  std::optional<size_t> param_of_result(size_t r) const {
    return stands_outside(r) ? std::optional<size_t>(param_of(f_->results[r])) : std::nullopt;
  }

 private:
  struct Place {
    bool inside = false, outside = false;
  };
  Place place(const Node& node) const { return places_[static_cast<size_t>(&node - f_->nodes.data())]; }

  // Constants of one operand, sequences of one operand, carries that begin and go on with the same value.
  void find_equal_params() {
    std::map<std::tuple<int, ValueId, ValueId>, size_t> first;
    for (size_t i = 0; i < f_->params.size(); ++i) {
      ValueId next = is_carry(i) ? f_->results[i - consts_] : -1;
      constant_.push_back(i < consts_ || next == f_->params[i]);
      int kind = constant_[i] ? 0 : is_carry(i) ? 1 : 2;
      twin_.push_back(first.try_emplace({kind, operands_[i].id, kind == 1 ? next : -1}, i).first->second);
    }
  }

  void find_equal_results() {
    std::map<ValueId, size_t> first;  // of the stacked ones
    for (size_t r = 0; r < f_->results.size(); ++r) {
      bool stacked = r >= carries_;
      twin_result_.push_back(stacked                  ? first.try_emplace(f_->results[r], r).first->second
                             : constant_[consts_ + r] ? r
                                                      : twin_[consts_ + r] - consts_);
    }
  }

  // A carry that never changes, or a sequence that is stacked as it was.
  bool stands_outside(size_t r) const {
    if (r < carries_) return constant_[consts_ + r];
    int param = index_[f_->results[r]];
    return param >= static_cast<int>(consts_ + carries_);
  }

  // Whether the node may be computed outside: from constants alone, and never for nothing where that could not end.
  bool invariant(const Node& node) const {
    bool collective = node.op->lower == ir::Lowering::kCollective;
    if (node.op->traits.side_effect || node.op->traits.fence) return false;
    if (collective ? !leaves_.count(node.op->name) : ir::communicates(node, module_)) return false;
    if ((collective || !functions_of(node.attrs).empty()) && flow_.trips.bounds().min < 1) return false;
    return std::all_of(node.operands.begin(), node.operands.end(), [&](ValueId id) { return fixed_[id]; });
  }

  // Movements are computed where they are read, and literals are part of the code.
  bool cheap(const Node& node) const {
    if (!functions_of(node.attrs).empty() || node.op->lower == ir::Lowering::kCollective) return false;
    bool of_params = std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId id) { return varies_[id]; });
    return !of_params || ir::node_flops(*f_, node).is(0);
  }

  void read(ValueId id, std::vector<bool>& from) {
    int param = param_of(id);
    from[param < 0 ? id : f_->params[param]] = true;
  }

  // Walks from the results up: every node stands where it is read, what is fixed and not cheap only outside.
  void place_nodes() {
    size_t values = f_->values.size();
    fixed_.assign(values, false), varies_.assign(values, false);
    for (size_t i = 0; i < f_->params.size(); ++i) fixed_[f_->params[i]] = constant_[i], varies_[f_->params[i]] = true;
    for (const Node& node : f_->nodes) {
      bool fixed = invariant(node);
      bool varies = std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId id) { return varies_[id]; });
      for (ValueId id : node.results) fixed_[id] = fixed, varies_[id] = varies;
    }
    inside_.assign(values, false), outside_.assign(values, false);
    places_.assign(f_->nodes.size(), {});
    handed_in_.clear();
    for (size_t r = 0; r < keep_.size(); ++r)
      if (keep_[r]) read(f_->results[r], inside_);
    for (size_t i = f_->nodes.size(); i-- > 0;) {
      const Node& node = f_->nodes[i];
      auto any = [&](const std::vector<bool>& of) {
        return std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) { return of[id]; });
      };
      Place at{any(inside_) || node.op->traits.side_effect, any(outside_)};
      if (at.inside && !node.results.empty() && fixed_[node.results[0]] && !cheap(node)) {
        at = {false, true};
        for (ValueId id : node.results)
          if (inside_[id]) handed_in_.push_back(id);
      }
      places_[i] = at;
      for (ValueId id : node.operands) {
        if (at.inside) read(id, inside_);
        if (at.outside) read(id, outside_);
      }
    }
    std::reverse(handed_in_.begin(), handed_in_.end());
  }

  FunctionPtr f_;
  const ir::Module& module_;
  ir::ControlFlow flow_;
  std::vector<Val> operands_;
  std::vector<bool> used_;
  const CollectivesThatLeave& leaves_;
  size_t consts_ = 0, carries_ = 0;
  std::vector<int> index_;              // per value: which parameter it is
  std::vector<bool> constant_;          // per parameter: the same in every iteration
  std::vector<size_t> twin_;            // per parameter: the first one that always equals it
  std::vector<size_t> twin_result_;     // per result
  std::vector<bool> keep_;              // per result
  std::vector<bool> fixed_, varies_;    // per value: computed from constants; from any parameter at all
  std::vector<bool> inside_, outside_;  // per value: read by what stays, by what leaves
  std::vector<Place> places_;           // per node
  std::vector<ValueId> handed_in_;
};

/// Puts a smaller loop in the place of one.
class LoopRewrite {
 public:
  LoopRewrite(FunctionCopy& outer, const Node& node, LoopBody body, ir::Module& module, const ir::OpTable& ops)
      : outer_(outer), node_(node), body_(std::move(body)), module_(module), ops_(ops) {}

  // False: there is nothing to change.
  bool run() {
    const Function& f = body_.function();
    std::vector<FunctionPtr> conditions;
    for (size_t i = 0; i + 1 < body_.flow().functions.size(); ++i)
      conditions.push_back(pointer(body_.flow().functions[i]));
    std::vector<bool> asked(f.params.size(), false);
    for (const FunctionPtr& c : conditions)
      for (size_t i = 0; i < asked.size(); ++i) asked[i] = asked[i] || reads(*c, c->params[i]);
    body_.decide(asked);
    choose_parameters();
    if (parameters_.size() == f.params.size() && kept_results() == f.results.size() && body_.handed_in().empty())
      return false;
    emit_outside();
    build(conditions);
    return true;
  }

 private:
  /// A parameter of the new functions: one of the old ones, or a value of the body that is computed outside.
  struct Parameter {
    int old;
    ValueId value;
  };

  FunctionPtr pointer(const std::string& name) const {
    return *std::find_if(module_.functions.begin(), module_.functions.end(),
                         [&](const FunctionPtr& f) { return f->name == name; });
  }
  static bool reads(const Function& f, ValueId id) {
    auto has = [&](const std::vector<ValueId>& ids) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
    return has(f.results) ||
           std::any_of(f.nodes.begin(), f.nodes.end(), [&](const Node& n) { return has(n.operands); });
  }

  size_t kept_results() const {
    size_t count = 0;
    for (size_t r = 0; r < body_.function().results.size(); ++r) count += body_.keeps_result(r);
    return count;
  }

  void choose_parameters() {
    const std::vector<ValueId>& params = body_.function().params;
    auto carries_on = [&](size_t i) {
      return body_.is_carry(i) && body_.keeps_result(i - static_cast<size_t>(body_.flow().consts));
    };
    flow_ = body_.flow();
    auto add = [&](size_t i) { parameters_.push_back({static_cast<int>(i), params[i]}); };
    for (size_t i = 0; i < params.size(); ++i)
      if (body_.constant(i) && body_.reads(i)) add(i);
    for (ValueId id : body_.handed_in()) parameters_.push_back({-1, id});
    flow_.consts = static_cast<int>(parameters_.size());
    for (size_t i = 0; i < params.size(); ++i)
      if (!body_.constant(i) && carries_on(i)) add(i);
    flow_.carries = static_cast<int>(parameters_.size()) - flow_.consts;
    for (size_t i = 0; i < params.size(); ++i)
      if (!body_.constant(i) && !body_.is_carry(i) && body_.reads(i)) add(i);
  }

  void emit_outside() {
    const Function& f = body_.function();
    outside_.resize(f.values.size());
    for (size_t i = 0; i < f.params.size(); ++i) outside_[f.params[i]] = body_.operand(i);
    for (const Node& node : f.nodes) {
      if (!body_.outside(node)) continue;
      std::vector<Val> operands;
      for (ValueId id : node.operands) operands.push_back(outside_[id]);
      std::vector<Val> made = outer_.builder().clone(node, f, operands);
      for (size_t r = 0; r < made.size(); ++r) outside_[node.results[r]] = made[r];
    }
  }

  // Of a function that nobody else names, the name; else a new one.
  std::string name_for(const Function& f) const {
    int references = module_.entries.empty() ? 2 : 0;
    for (const ir::Entry& e : module_.entries) references += e.function == f.name ? 2 : 0;
    for (const FunctionPtr& g : module_.functions)
      for (const Node& n : g->nodes)
        for (const std::string& name : functions_of(n.attrs)) references += name == f.name;
    return references == 1 ? f.name : fresh_name(module_, f.name);
  }

  // `f` on the new parameters; `old` gives the place of its own ones among the body's.
  std::string define(const Function& f, const std::vector<ValueId>& results,
                     const std::function<bool(const Node&)>& stays, bool is_body) {
    ir::FunctionBuilder b(name_for(f), ops_, &module_);
    std::vector<Val> values(f.values.size());
    std::vector<Val> of_param(f.params.size());
    for (const Parameter& p : parameters_) {
      const ir::Value& value = body_.function().values[p.value];
      Val v = b.param(p.old >= 0 ? f.values[f.params[p.old]].name : value.name, value.type);
      b.lay_out(v, p.old >= 0 ? f.values[f.params[p.old]].sharding : value.sharding);
      if (p.old >= 0)
        of_param[p.old] = v;
      else if (is_body)
        values[p.value] = v;
    }
    for (size_t i = 0; i < f.params.size(); ++i) values[f.params[i]] = of_param[body_.twin(i)];
    for (const Node& node : f.nodes) {
      if (!stays(node)) continue;
      std::vector<Val> operands;
      for (ValueId id : node.operands) operands.push_back(values[id]);
      std::vector<Val> made = b.clone(node, f, operands);
      for (size_t r = 0; r < made.size(); ++r) {
        values[node.results[r]] = made[r];
        if (!f.values[node.results[r]].name.empty()) b.name_value(made[r], f.values[node.results[r]].name);
      }
    }
    std::vector<Val> out;
    for (ValueId id : results) out.push_back(values[id]);
    Function made = b.finish(out);
    made.location = f.location;
    std::string name = made.name;
    module_.set(std::make_shared<const Function>(std::move(made)));
    return name;
  }

  // A condition that is named but never asked need not say anything.
  std::string define_unasked(const Function& f) {
    ir::FunctionBuilder b(name_for(f), ops_, &module_);
    for (const Parameter& p : parameters_) b.param("", body_.function().type(p.value));
    Function made = b.finish({b.constant(Literal::scalar(DType::kBool, 1))});
    made.location = f.location;
    std::string name = made.name;
    module_.set(std::make_shared<const Function>(std::move(made)));
    return name;
  }

  void build(const std::vector<FunctionPtr>& conditions) {
    const Function& f = body_.function();
    std::vector<ValueId> kept;
    for (size_t r = 0; r < f.results.size(); ++r)
      if (body_.keeps_result(r)) kept.push_back(f.results[r]);
    flow_.functions.clear();
    for (const FunctionPtr& c : conditions)
      flow_.functions.push_back(define(
          *c, c->results, [](const Node&) { return true; }, false));
    flow_.functions.push_back(define(
        f, kept, [&](const Node& n) { return body_.inside(n); }, true));
    if (!flow_.unasked.empty()) flow_.unasked = define_unasked(*pointer(flow_.unasked));

    std::vector<Val> operands, made, all(f.results.size());
    for (const Parameter& p : parameters_) operands.push_back(p.old >= 0 ? body_.operand(p.old) : outside_[p.value]);
    outer_.builder().set_location(node_.location);
    if (!kept.empty())
      made = outer_.builder().add(node_.op->name, operands, node_.op->with_control(node_.attrs, flow_));
    for (size_t r = 0, next = 0; r < f.results.size(); ++r)
      if (body_.keeps_result(r)) all[r] = made[next++];
    for (size_t r = 0; r < f.results.size(); ++r) {
      std::optional<size_t> param = body_.param_of_result(r);
      Val v = param ? body_.operand(*param) : all[body_.twin_result(r)];
      if (v.b) outer_.set(node_.results[r], v);
    }
  }

  FunctionCopy& outer_;
  const Node& node_;
  LoopBody body_;
  ir::Module& module_;
  const ir::OpTable& ops_;
  ir::ControlFlow flow_;
  std::vector<Parameter> parameters_;
  std::vector<Val> outside_;  // per value of the body that is there outside
};

FunctionPtr with_smaller_loops(const FunctionPtr& f, ir::Module& module, const ir::OpTable& ops,
                               const CollectivesThatLeave& leaves) {
  // One whose body has effects stays as it is: each of them comes where it was written, and with what it was given.
  auto is_loop = [&](const Node& n) { return n.op->with_control != nullptr && !ir::has_effect(n, module); };
  if (std::none_of(f->nodes.begin(), f->nodes.end(), is_loop)) return f;
  FunctionCopy copy(*f, ops, &module);
  std::vector<int> uses = use_counts(*f);
  bool changed = false;
  for (const Node& node : f->nodes) {
    if (is_loop(node)) {
      ir::ControlFlow flow = control_of(*f, node);
      auto body = std::find_if(module.functions.begin(), module.functions.end(),
                               [&](const FunctionPtr& g) { return g->name == flow.functions.back(); });
      std::vector<bool> used;
      for (ValueId id : node.results) used.push_back(uses[id] > 0);
      LoopBody seen(*body, std::move(flow), copy.at(node.operands), std::move(used), module, leaves);
      if (LoopRewrite(copy, node, std::move(seen), module, ops).run()) {
        changed = true;
        continue;
      }
    }
    copy.copy(node);
  }
  return changed ? without_dead_nodes(copy.finish(), module, ops) : f;
}

Result<ir::Module> with_smaller_loops(const ir::Module& module, PassContext& context,
                                      const CollectivesThatLeave& leaves) {
  ir::Module out = module;
  for (const FunctionPtr& f : NABLA_TRY(bottom_up(module))) {
    FunctionPtr before, now = without_dead_nodes(f, out, context.ops);
    while (before != now) {
      before = now;
      now = with_smaller_loops(now, out, context.ops, leaves);
    }
    if (now != f) out.set(now);
  }
  drop_unreached(out);
  return out;
}

}  // namespace

Result<ir::Module> simplify_loops(const ir::Module& module, PassContext& context) {
  return with_smaller_loops(module, context, {});
}

namespace {
Diagnostic no_collective(const std::string& name, const ir::OpTable& ops) {
  Diagnostic d = error(Code::kBadOption, "hoist-collectives: `{}` is no collective", name);
  for (const ir::OpDef& op : ops.all())
    if (op.lower == ir::Lowering::kCollective) d.help += (d.help.empty() ? "there are " : ", ") + op.name;
  return d;
}
}  // namespace

Result<ir::Module> hoist_collectives(const ir::Module& module, PassContext& context) {
  CollectivesThatLeave leaves;
  for (const std::string& name : context.options.hoist_collectives.ops) {
    const ir::OpDef* op = context.ops.find(name);
    if (!op || op->lower != ir::Lowering::kCollective) return no_collective(name, context.ops);
    leaves.insert(name);
  }
  bool any = std::any_of(module.functions.begin(), module.functions.end(), [&](const FunctionPtr& f) {
    return std::any_of(f->nodes.begin(), f->nodes.end(), [&](const Node& n) { return leaves.count(n.op->name) > 0; });
  });
  return any ? with_smaller_loops(module, context, leaves) : module;
}

}  // namespace nabla::passes
