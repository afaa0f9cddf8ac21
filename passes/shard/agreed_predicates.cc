#include "passes/shard/agreed_predicates.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/rewrite.h"
#include "passes/shard/layout.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Function;
using ir::Node;
using ir::Val;
using ir::ValueId;

// The axes of ranks along which the functions, and those that they call, exchange something.
class ExchangedAxes {
 public:
  ExchangedAxes(const ir::Module& m, const ir::Mesh& mesh) : m_(m), mesh_(mesh) {}

  void visit(const std::string& name) {
    if (!seen_.insert(name).second) return;
    const Function* f = m_.find(name);
    if (!f) return;
    for (const Node& n : f->nodes) {
      if (n.op->lower == ir::Lowering::kCollective)
        for (const ir::AxisRef& a : n.attrs.get_axes("axes"))
          if (!is_temporal(mesh_, {a}) && !names(axes, a.name)) axes.push_back({a.name});
      for (const std::string& callee : ir::functions_of(n.attrs)) visit(callee);
    }
  }

  Axes axes;

 private:
  const ir::Module& m_;
  const ir::Mesh& mesh_;
  std::set<std::string> seen_;
};

// Does a value follow from a float, which ranks may have rounded differently?
class Origins {
 public:
  Origins(const ir::Module& m, const Function& f, const Node& n, const ir::ControlFlow& c) : m_(m), f_(f), n_(n), c_(c) {
    if (c.kind == ir::ControlFlow::Kind::kWhile) condition_ = m.find(c.functions[0]), body_ = m.find(c.functions[1]);
  }

  bool predicate_may_differ() {
    if (c_.kind == ir::ControlFlow::Kind::kBranch) return may_differ(f_, n_.operands[0]);
    return !condition_ || !body_ || may_differ(*condition_, condition_->results[0]);
  }

 private:
  bool may_differ(const Function& f, ValueId id) {
    if (!seen_.insert({&f, id}).second) return false;
    if (is_float(f.type(id).dtype)) return true;
    auto param = std::find(f.params.begin(), f.params.end(), id);
    if (param != f.params.end()) return param_may_differ(f, static_cast<size_t>(param - f.params.begin()));
    const Node* maker = producer(f, id);
    if (!maker || maker->op->lower == ir::Lowering::kControl || maker->op->traits.side_effect) return true;
    return std::any_of(maker->operands.begin(), maker->operands.end(), [&](ValueId operand) { return may_differ(f, operand); });
  }
  // A parameter of the loop is its operand, and as a carry what the body makes of it. Entries get the same on all ranks.
  bool param_may_differ(const Function& f, size_t k) {
    if (&f != condition_ && &f != body_) return is_called(f.name);
    if (may_differ(f_, n_.operands[k])) return true;
    auto consts = static_cast<size_t>(c_.consts);
    return k >= consts && may_differ(*body_, body_->results[k - consts]);
  }
  bool is_called(const std::string& name) const {
    return std::any_of(m_.functions.begin(), m_.functions.end(), [&](const ir::FunctionPtr& f) {
      std::vector<std::string> names = referenced_functions(*f);
      return std::find(names.begin(), names.end(), name) != names.end();
    });
  }
  const Node* producer(const Function& f, ValueId id) {
    auto [known, first] = producers_.try_emplace(&f);
    if (first) known->second = ir::producers(f);
    int at = known->second[static_cast<size_t>(id)];
    return at < 0 ? nullptr : &f.nodes[static_cast<size_t>(at)];
  }

  const ir::Module& m_;
  const Function& f_;
  const Node& n_;
  const ir::ControlFlow& c_;
  const Function *condition_ = nullptr, *body_ = nullptr;
  std::set<std::pair<const Function*, ValueId>> seen_;
  std::map<const Function*, std::vector<int>> producers_;
};

}  // namespace

Agreement agreement_of(const ir::Module& sharded, const Function& f, const Node& n, const ir::Module& local, const ir::Mesh& mesh) {
  ir::ControlFlow c = ir::control_of(f, n);
  if (c.kind == ir::ControlFlow::Kind::kLoop) return {};
  ExchangedAxes exchanged(local, mesh);
  for (const std::string& name : c.functions) exchanged.visit(name);
  if (exchanged.axes.empty() || !Origins(sharded, f, n, c).predicate_may_differ()) return {};
  return {exchanged.axes};
}

Val agreed(const ir::Mesh& mesh, Val predicate, const Axes& axes) {
  return all_reduce(mesh, predicate, axes, predicate.dtype() == DType::kBool ? kernel_ir::Combiner::kOr : kernel_ir::Combiner::kMax);
}

ir::FunctionRef with_agreed_result(const Function& condition, const Axes& axes, ir::Module& module, const ir::OpTable& ops) {
  ir::FunctionBuilder b(fresh_name(module, condition.name + ".agreed"), ops, &module);
  std::vector<Val> values(condition.values.size());
  for (ValueId id : condition.params) values[id] = b.param(condition.values[id].name, condition.type(id));
  for (const Node& n : condition.nodes) {
    b.set_location(n.location);
    copy_node(n, condition, b, values);
  }
  Function out = b.finish({agreed(*module.mesh(), values[condition.results[0]], axes)});
  out.location = condition.location;
  module.set(std::make_shared<const Function>(out));
  return {out.name};
}

}  // namespace nabla::passes
