#include "passes/shard/early_sums.h"

#include <algorithm>

#include "passes/rewrite.h"
#include "passes/shard/layout.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;
using ir::Val;
using ir::ValueId;

class EarlySums {
 public:
  EarlySums(const Function& f, const std::string& axis, const std::vector<bool>& inside, size_t reads)
      : f_(f), axis_(axis), inside_(f.values.size(), false), after_(f.values.size(), false),
        from_state_(f.values.size(), false) {
    for (size_t i = 0; i < f.params.size(); ++i) inside_[f.params[i]] = inside[i], from_state_[f.params[i]] = i < reads;
  }

  /// The combined values, in the order of their nodes.
  std::vector<ValueId> find() {
    std::vector<bool> wanted(f_.values.size(), false);
    for (const Node& n : f_.nodes) {
      auto any = [&](const std::vector<bool>& of) {
        return std::any_of(n.operands.begin(), n.operands.end(), [&](ValueId id) { return of[id]; });
      };
      bool join = joins(n, axis_), both = any(inside_) && any(after_);
      for (ValueId id : n.operands)
        if (both && after_[id]) wanted[id] = true;
      // What depends on another sum over the microbatches would be a stage of its own.
      bool state = any(from_state_) || (join && any(after_)) || n.op->traits.side_effect;
      for (ValueId id : n.results) {
        from_state_[id] = state;
        after_[id] = join || (any(after_) && !both);
        inside_[id] = !join && any(inside_);
      }
    }
    std::vector<ValueId> out;
    for (auto n = f_.nodes.rbegin(); n != f_.nodes.rend(); ++n) {
      bool needed = std::any_of(n->results.begin(), n->results.end(), [&](ValueId id) { return wanted[id]; });
      if (!needed) continue;
      if (joins(*n, axis_)) {
        if (!from_state_[n->results[0]]) out.push_back(n->results[0]);
        continue;
      }
      for (ValueId id : n->operands)
        if (after_[id]) wanted[id] = true;
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

 private:
  const Function& f_;
  const std::string& axis_;
  std::vector<bool> inside_, after_, from_state_;  // by value
};

// What these results follow from, given what is known already; `effects`: and nodes that have some.
std::vector<bool> needed_for(const Function& f, const std::vector<ValueId>& results, const std::vector<Val>& known, bool effects) {
  std::vector<bool> out(f.values.size(), false);
  for (ValueId id : results) out[id] = true;
  for (auto n = f.nodes.rbegin(); n != f.nodes.rend(); ++n) {
    bool makes = std::any_of(n->results.begin(), n->results.end(), [&](ValueId id) { return out[id] && !known[id].b; });
    if (makes || (effects && n->op->traits.side_effect))
      for (ValueId id : n->operands) out[id] = true;
  }
  return out;
}

// The nodes of `f` that make what is needed and is not known yet.
void copy_needed(const Function& f, const std::vector<bool>& needed, ir::FunctionBuilder& b, std::vector<Val>& values, bool effects) {
  for (const Node& n : f.nodes) {
    bool makes = std::any_of(n.results.begin(), n.results.end(), [&](ValueId id) { return needed[id] && !values[id].b; });
    if (!makes && !(effects && n.op->traits.side_effect)) continue;
    copy_node(n, f, b, values);
  }
}

}  // namespace

bool joins(const Node& n, const std::string& axis) {
  return n.op->lower == ir::Lowering::kCollective && names(n.attrs.get_axes("axes"), axis);
}

std::optional<Stages> early_sums(const Function& f, const std::string& axis, const std::vector<bool>& inside, size_t reads,
                                 const ir::OpTable& ops, const ir::Module& module) {
  std::vector<ValueId> early = EarlySums(f, axis, inside, reads).find();
  if (early.empty()) return std::nullopt;
  Stages out;
  ir::FunctionBuilder first(f.name + ".early", ops, &module), second(f.name, ops, &module);
  std::vector<Val> in_first(f.values.size()), in_second(f.values.size());
  // Nodes with effects stay in the second stage.
  std::vector<bool> needed = needed_for(f, early, in_first, false);
  for (size_t i = 0; i < f.params.size(); ++i) {
    const ir::Value& v = f.values[f.params[i]];
    in_second[f.params[i]] = second.param(v.name, v.type);
    if (needed[f.params[i]]) in_first[f.params[i]] = first.param(v.name, v.type), out.params.push_back(i);
  }
  copy_needed(f, needed, first, in_first, false);
  for (ValueId id : early) in_second[id] = second.param(f.values[id].name, f.type(id));
  copy_needed(f, needed_for(f, f.results, in_second, true), second, in_second, true);
  out.first = first.finish(at(early, in_first));
  out.second = second.finish(at(f.results, in_second));
  out.first.location = out.second.location = f.location;
  return out;
}

Function joined(const Stages& stages, const std::string& name, const ir::OpTable& ops, const ir::Module& module) {
  ir::FunctionBuilder b(name, ops, &module);
  const Function &first = stages.first, &second = stages.second;
  std::vector<Val> in_first(first.values.size()), in_second(second.values.size());
  size_t own = second.params.size() - first.results.size();
  for (size_t i = 0; i < own; ++i) {
    const ir::Value& v = second.values[second.params[i]];
    in_second[second.params[i]] = b.param(v.name, v.type);
  }
  for (size_t i = 0; i < stages.params.size(); ++i) in_first[first.params[i]] = in_second[second.params[stages.params[i]]];
  copy_needed(first, std::vector<bool>(first.values.size(), true), b, in_first, true);
  for (size_t r = 0; r < first.results.size(); ++r) in_second[second.params[own + r]] = in_first[first.results[r]];
  copy_needed(second, std::vector<bool>(second.values.size(), true), b, in_second, true);
  Function out = b.finish(at(second.results, in_second));
  out.location = second.location;
  return out;
}

}  // namespace nabla::passes
