#include "passes/rewrite.h"

#include <algorithm>
#include <map>
#include <set>

namespace nabla::passes {

using ir::Function;
using ir::FunctionPtr;
using ir::Node;
using ir::Val;
using ir::ValueId;

FunctionCopy::FunctionCopy(const Function& from, const ir::OpTable& ops, const ir::Module* module)
    : from_(from), b_(from.name, ops, module), values_(from.values.size()) {
  b_.reserve(from.nodes.size());
  for (ValueId id : from.params) {
    values_[id] = b_.param(from.values[id].name, from.type(id));
    b_.lay_out(values_[id], from.values[id].sharding);
  }
}

Val FunctionCopy::at(ValueId id) const {
  NABLA_CHECK(values_[id].b, "value {} of @{} is not copied yet", id, from_.name);
  return values_[id];
}

std::vector<Val> FunctionCopy::at(const std::vector<ValueId>& ids) const {
  std::vector<Val> out;
  out.reserve(ids.size());
  for (ValueId id : ids) out.push_back(at(id));
  return out;
}

void FunctionCopy::set(ValueId id, Val v) {
  values_[id] = v;
  if (!from_.values[id].name.empty() && b_.function().values[v.id].name.empty())
    b_.name_value(v, from_.values[id].name);
  // Of a value that has a layout already, that of its own definition counts.
  if (from_.values[id].sharding && !b_.function().values[v.id].sharding) b_.lay_out(v, from_.values[id].sharding);
}

void FunctionCopy::set(const std::vector<ValueId>& ids, const std::vector<Val>& values) {
  NABLA_CHECK(ids.size() == values.size(), "@{}: {} values replace {}", from_.name, values.size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) set(ids[i], values[i]);
}

void FunctionCopy::copy(const Node& node) { set(node.results, b_.clone(node, from_, at(node.operands))); }

FunctionPtr FunctionCopy::finish() {
  Function out = b_.finish(at(from_.results));
  out.location = from_.location;
  return std::make_shared<const Function>(std::move(out));
}

std::vector<Val> at(const std::vector<ValueId>& ids, const std::vector<Val>& values) {
  std::vector<Val> out;
  for (ValueId id : ids) out.push_back(values[id]);
  return out;
}

void copy_node(const Node& node, const Function& from, ir::FunctionBuilder& b, std::vector<Val>& values) {
  b.set_location(node.location);
  std::vector<Val> made = b.clone(node, from, at(node.operands, values));
  for (size_t r = 0; r < made.size(); ++r) {
    values[node.results[r]] = made[r];
    const std::string& name = from.values[node.results[r]].name;
    if (!name.empty() && b.function().values[made[r].id].name.empty()) b.name_value(made[r], name);
  }
}

Function decomposition(const ir::TypedOp& op, const LocationRef& location, const ir::OpTable& ops,
                       const ir::Module* module) {
  ir::FunctionBuilder inner(op.op.name, ops, module);
  inner.set_location(location);
  std::vector<Val> params;
  for (const ir::Type& t : op.operands) params.push_back(inner.param("", t));
  ir::DecomposeContext ctx{inner, op, params};
  std::vector<Val> results = op.op.decompose(ctx);
  return inner.finish(results);
}

bool must_expand(const Function& f, const Node& n, const ir::Target& target) {
  return n.op->lower == ir::Lowering::kDecompose && !(target.is_cuda() && n.op->whole && n.op->whole(typed(f, n)));
}

std::string fresh_name(const ir::Module& module, const std::string& wish) {
  std::string name = wish;
  for (int n = 2; module.find(name); ++n) name = fmt::format("{}.v{}", wish, n);
  return name;
}

std::vector<std::string> referenced_functions(const Function& f) {
  std::vector<std::string> out;
  auto add = [&](const std::string& name) {
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  };
  for (const Node& node : f.nodes)
    for (const std::string& name : functions_of(node.attrs)) add(name);
  for (const ir::Value& v : f.values)
    if (v.type.is_residual()) add(v.type.residual_of);
  return out;
}

namespace {

class BottomUp {
 public:
  explicit BottomUp(const ir::Module& module) : module_(module) {
    for (const FunctionPtr& f : module.functions) by_name_.emplace(f->name, f);
  }

  Status visit(const std::string& name, const Function* from) {
    auto it = by_name_.find(name);
    if (it == by_name_.end()) {
      Diagnostic d = error(Code::kUnknownName, "@{} names @{}, which does not exist{}", from->name, name,
                           did_you_mean(name, module_.function_names()));
      d.location = from->location;
      return d;
    }
    auto on_path = std::find(path_.begin(), path_.end(), name);
    if (on_path != path_.end()) {
      std::string cycle;
      for (auto step = on_path; step != path_.end(); ++step) cycle += "@" + *step + " -> ";
      Diagnostic d = error(Code::kRecursion, "@{} calls itself: {}@{}", name, cycle, name);
      d.location = it->second->location;
      return d;
    }
    if (done_[name]) return Ok{};
    path_.push_back(name);
    for (const std::string& callee : referenced_functions(*it->second)) NABLA_TRY(visit(callee, it->second.get()));
    path_.pop_back();
    done_[name] = true;
    order_.push_back(it->second);
    return Ok{};
  }

  std::vector<FunctionPtr> take() { return std::move(order_); }

 private:
  const ir::Module& module_;
  std::map<std::string, FunctionPtr> by_name_;
  std::map<std::string, bool> done_;
  std::vector<std::string> path_;
  std::vector<FunctionPtr> order_;
};

}  // namespace

Result<std::vector<FunctionPtr>> bottom_up(const ir::Module& module) {
  BottomUp walk(module);
  for (const FunctionPtr& f : module.functions) NABLA_TRY(walk.visit(f->name, nullptr));
  return walk.take();
}

namespace {

void reach(const std::string& name, const ir::Module& module, std::set<std::string>& reached) {
  if (!reached.insert(name).second) return;
  for (const std::string& callee : referenced_functions(*module.find(name))) reach(callee, module, reached);
}

}  // namespace

void drop_unreached(ir::Module& module) {
  if (module.entries.empty()) return;
  std::set<std::string> reached;
  for (const ir::Entry& e : module.entries) reach(e.function, module, reached);
  std::erase_if(module.functions, [&](const FunctionPtr& f) { return !reached.count(f->name); });
}

FunctionPtr without_dead_nodes(const FunctionPtr& f, const ir::Module& module, const ir::OpTable& ops) {
  std::vector<bool> used(f->values.size(), false);
  for (ValueId id : f->results) used[id] = true;
  std::vector<bool> live(f->nodes.size(), false);
  bool any_dead = false;
  for (size_t i = f->nodes.size(); i-- > 0;) {
    const Node& node = f->nodes[i];
    live[i] = ir::has_effect(node, module) ||
              std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) { return used[id]; });
    any_dead |= !live[i];
    if (live[i])
      for (ValueId id : node.operands) used[id] = true;
  }
  if (!any_dead) return f;
  FunctionCopy copy(*f, ops, &module);
  for (size_t i = 0; i < f->nodes.size(); ++i)
    if (live[i]) copy.copy(f->nodes[i]);
  return copy.finish();
}

}  // namespace nabla::passes
