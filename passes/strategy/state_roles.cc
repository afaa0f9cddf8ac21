#include "passes/strategy/state_roles.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;
using ir::ValueId;

/// What one function says: values with respect to which something is differentiated, and gradients.
struct Gradients {
  std::vector<bool> of, made;  // by value
  bool any = false;
};

// How many parts between dots two names have in common at their ends, twice, and one more where that is the whole second name.
size_t shared_ending(const std::string& name, const std::string& whole) {
  size_t parts = 0, length = 0;
  for (; length < std::min(name.size(), whole.size()); ++length) {
    const char c = whole[whole.size() - 1 - length];
    if (c != name[name.size() - 1 - length]) break;
    if (c == '.') ++parts;
  }
  auto ends = [&](const std::string& s) { return length == s.size() || s[s.size() - 1 - length] == '.'; };
  const bool all = length == whole.size() && ends(name);
  if (ends(name) && ends(whole)) ++parts;
  return 2 * parts + all;
}

class RoleFinder {
 public:
  RoleFinder(const ir::Module& m, bool directly) : m_(m), directly_(directly) {}

  Result<StateRoles> run() {
    for (const ir::FunctionPtr& f : NABLA_TRY(bottom_up(m_))) {
      found_[f->name] = gradients_in(*f);
      stacked_[f->name] = stacked_in(*f);
    }
    std::vector<LeafRole> out(m_.state.size());
    std::vector<bool> trains;
    for (const ir::Entry& e : m_.entries) {
      const Function& f = *m_.find(e.function);
      const Gradients& g = found_[f.name];
      trains.push_back(g.any);
      for (size_t i = 0; i < e.reads.size(); ++i) {
        LeafRole& role = out[static_cast<size_t>(e.reads[i])];
        if (g.of[f.params[i]]) role.kind = LeafRole::Kind::kParameter;
        if (stacked_[f.name][i]) role.stacked = true;
      }
    }
    for (const ir::Entry& e : m_.entries) {
      const Function& f = *m_.find(e.function);
      for (size_t i = 0; i < e.writes.size(); ++i) {
        LeafRole& role = out[static_cast<size_t>(e.writes[i])];
        if (role.kind == LeafRole::Kind::kOther && found_[f.name].made[f.results[i]]) role.kind = LeafRole::Kind::kOptimizer;
      }
    }
    for (size_t s = 0; s < out.size(); ++s) {
      if (out[s].kind == LeafRole::Kind::kOptimizer) out[s].parameter = parameter_of(s, out);
      if (out[s].parameter >= 0)
        out[s].stacked = out[static_cast<size_t>(out[s].parameter)].stacked;
      else if (out[s].kind == LeafRole::Kind::kOptimizer)
        out[s].stacked = has_shape_of_layers(s, out);
    }
    return StateRoles{std::move(out), std::move(trains)};
  }

 private:
  Gradients gradients_in(const Function& f) const {
    Gradients out{std::vector<bool>(f.values.size(), false), std::vector<bool>(f.values.size(), false)};
    std::vector<int> makers = ir::producers(f);
    std::vector<bool> used(f.values.size(), false);
    for (const Node& n : f.nodes)
      for (ValueId id : n.operands) used[id] = true;
    for (ValueId id : f.results) used[id] = true;
    for (const Node& n : f.nodes) {
      for (auto [operand, gradient] : gradient_pairs(f, n, makers)) {
        out.any = true;
        if (!used[gradient]) continue;
        out.of[operand] = true, out.made[gradient] = true;
      }
      for (const std::string& name : ir::functions_of(n.attrs)) within(n, name, out);
      bool follows = std::any_of(n.operands.begin(), n.operands.end(), [&](ValueId id) { return out.made[id]; });
      for (ValueId id : n.results) out.made[id] = out.made[id] || follows;
    }
    for (auto n = f.nodes.rbegin(); n != f.nodes.rend(); ++n)
      if ((!directly_ || n->operands.size() == 1) &&
          std::any_of(n->results.begin(), n->results.end(), [&](ValueId id) { return out.of[id]; }))
        for (ValueId id : n->operands) out.of[id] = true;
    return out;
  }

  // Of a function that a node runs: its parameters are the node's operands, but for the index of a branch.
  void within(const Node& n, const std::string& name, Gradients& out) const {
    auto known = found_.find(name);
    if (known == found_.end() || !known->second.any) return;
    const Function& f = *m_.find(name);
    bool branch = n.op->name == "cond" || n.op->name == "switch";
    out.any = true;
    for (size_t i = 0; i < f.params.size() && i + branch < n.operands.size(); ++i)
      if (known->second.of[f.params[i]]) out.of[n.operands[i + branch]] = true;
    for (size_t i = 0; i < f.results.size() && i < n.results.size(); ++i)
      if (known->second.made[f.results[i]]) out.made[n.results[i]] = true;
  }

  // By parameter: does a loop that the function or a callee runs cut it into slices, as it is or in another dtype?
  std::vector<bool> stacked_in(const Function& f) const {
    std::vector<bool> out(f.values.size(), false), params;
    for (auto n = f.nodes.rbegin(); n != f.nodes.rend(); ++n) {
      if (n->op->lower == ir::Lowering::kControl) {
        ir::ControlFlow c = ir::control_of(f, *n);
        bool branch = c.kind == ir::ControlFlow::Kind::kBranch;
        size_t whole = n->operands.size();
        if (!branch) whole = std::min(whole, static_cast<size_t>(c.consts + c.carries));
        for (size_t i = whole; i < n->operands.size(); ++i) out[n->operands[i]] = true;
        for (const std::string& name : c.functions) sliced_within(name, {n->operands.begin() + branch, n->operands.begin() + whole}, out);
      } else {
        for (const std::string& name : ir::functions_of(n->attrs)) sliced_within(name, n->operands, out);
      }
      bool same = n->op->form == ir::OpForm::kConvert || n->op->layout_role == ir::LayoutRole::kShard;
      if (same && out[n->results[0]]) out[n->operands[0]] = true;
    }
    for (ValueId id : f.params) params.push_back(out[id]);
    return params;
  }
  // Of a function whose first parameters are these values.
  void sliced_within(const std::string& name, const std::vector<ValueId>& operands, std::vector<bool>& out) const {
    auto known = stacked_.find(name);
    for (size_t i = 0; known != stacked_.end() && i < std::min(operands.size(), known->second.size()); ++i)
      if (known->second[i]) out[operands[i]] = true;
  }

  // A slot whose name says nothing of its parameter ("momentum.blocks" of "model.blocks") has its shape.
  bool has_shape_of_layers(size_t slot, const std::vector<LeafRole>& roles) const {
    for (size_t p = 0; p < roles.size(); ++p) {
      bool layers = roles[p].kind == LeafRole::Kind::kParameter && roles[p].stacked;
      if (layers && m_.state[p].type.shape == m_.state[slot].type.shape) return true;
    }
    return false;
  }

  // Of the parameters with the leaf's shape the one whose name ends as the leaf's does for the most parts: of "opt.m.fc1.w" it is
  // "p.fc1.w" before "p.fc2.w". Where two share as many, that whose whole name these are; where that is none, nobody can tell.
  int parameter_of(size_t leaf, const std::vector<LeafRole>& roles) const {
    int out = -1;
    size_t most = 0;
    for (size_t p = 0; p < roles.size(); ++p) {
      if (roles[p].kind != LeafRole::Kind::kParameter || m_.state[p].type.shape != m_.state[leaf].type.shape) continue;
      const size_t shared = shared_ending(m_.state[leaf].name, m_.state[p].name);
      if (shared == most) out = -1;
      if (shared > most) most = shared, out = static_cast<int>(p);
    }
    return out;
  }

  const ir::Module& m_;
  const bool directly_;
  std::map<std::string, Gradients> found_;           // by function
  std::map<std::string, std::vector<bool>> stacked_;  // by function and parameter
};

}  // namespace

Result<StateRoles> roles_of_state(const ir::Module& module, bool directly) { return RoleFinder(module, directly).run(); }

std::vector<std::pair<ValueId, ValueId>> gradient_pairs(const Function& f, const Node& n, const std::vector<int>& makers) {
  std::vector<std::pair<ValueId, ValueId>> out;
  if (n.op->name == "grad" || n.op->name == "value_and_grad") {
    const ir::Ints& wrt = n.attrs.get_ints("wrt");
    size_t first = n.results.size() - wrt.size();
    for (size_t i = 0; i < wrt.size(); ++i) out.emplace_back(n.operands[static_cast<size_t>(wrt[i])], n.results[first + i]);
  }
  if (n.op->name == "vjp_backward" && makers[n.operands[0]] >= 0) {
    const Node& forward = f.nodes[static_cast<size_t>(makers[n.operands[0]])];
    for (size_t i = 0; forward.op->name == "vjp_forward" && i < n.results.size(); ++i)
      out.emplace_back(forward.operands[i], n.results[i]);
  }
  return out;
}

}  // namespace nabla::passes
