// Applies rewrite rules until none applies.
#include <algorithm>
#include <map>

#include "passes/rewrite.h"
#include "passes/simplify/rules.h"
#include "passes/simplify/simplify.h"

namespace nabla::passes {
namespace {

using ir::FunctionPtr;
using ir::Node;
using ir::Val;

// Rules by op; those for any op stand under every name.
class RuleTable {
 public:
  const std::vector<const Rule*>& of(const ir::OpDef& op) {
    auto [it, added] = by_op_.try_emplace(&op);
    if (added)
      for (const Rule& r : canonicalization_rules())
        if (r.ops.empty() || std::find(r.ops.begin(), r.ops.end(), op.name) != r.ops.end()) it->second.push_back(&r);
    return it->second;
  }

 private:
  std::map<const ir::OpDef*, std::vector<const Rule*>> by_op_;
};

// One walk over a function. What a rule builds is looked at in the next walk.
class Walk {
 public:
  Walk(const FunctionPtr& f, const ir::Module& module, PassContext& context, RuleTable& rules)
      : f_(f),
        copy_(*f, context.ops, &module),
        rules_(rules),
        uses_(use_counts(*f)),
        replaced_(f->values.size(), false) {}

  // The new function, or f itself when no rule applies.
  FunctionPtr run() {
    bool changed = false;
    for (const Node& node : f_->nodes) {
      std::vector<Val> operands = copy_.at(node.operands);
      copy_.builder().set_location(node.location);
      if (Replacement r = replacement(node, operands)) {
        check(node, *r);
        copy_.set(node.results, *r);
        for (ir::ValueId id : node.results) replaced_[id] = true;
        changed = true;
      } else {
        copy_.copy(node);
      }
    }
    return changed ? copy_.finish() : f_;
  }

 private:
  Replacement replacement(const Node& node, const std::vector<Val>& operands) {
    index_producers();
    std::vector<bool> only_use;
    for (ir::ValueId id : node.operands) only_use.push_back(uses_[id] == 1 && !replaced_[id]);
    Candidate candidate(copy_.builder(), *node.op, operands, node.attrs, producers_, only_use);
    for (const Rule* rule : rules_.of(*node.op))
      if (Replacement r = rule->apply(candidate)) return r;
    return std::nullopt;
  }

  void index_producers() {
    const ir::Function& made = copy_.builder().function();
    producers_.resize(made.values.size(), -1);
    for (; indexed_ < made.nodes.size(); ++indexed_)
      for (ir::ValueId id : made.nodes[indexed_].results) producers_[id] = static_cast<int>(indexed_);
  }

  void check(const Node& node, const std::vector<Val>& replacement) const {
    NABLA_CHECK(replacement.size() == node.results.size(), "a rule gave {} results for {}", replacement.size(),
                node.op->name);
    for (size_t i = 0; i < replacement.size(); ++i)
      NABLA_CHECK(replacement[i].type() == f_->type(node.results[i]), "a rule turned {} of type {} into {}",
                  node.op->name, f_->type(node.results[i]).str(), replacement[i].type().str());
  }

  FunctionPtr f_;
  FunctionCopy copy_;
  RuleTable& rules_;
  std::vector<int> uses_;       // of f's values
  std::vector<bool> replaced_;  // by a rule: what stands for the value may have other users
  std::vector<int> producers_;
  size_t indexed_ = 0;
};

}  // namespace

Result<ir::Module> canonicalize(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  RuleTable rules;
  for (FunctionPtr& f : out.functions) {
    for (bool changed = true; changed;) {
      FunctionPtr next = Walk(f, out, context, rules).run();
      changed = next != f;
      f = std::move(next);
      if (changed) f = without_dead_nodes(f, out, context.ops);
    }
  }
  return out;
}

}  // namespace nabla::passes
