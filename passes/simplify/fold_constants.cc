// Nodes whose operands are constants become constants.
#include <algorithm>

#include "passes/rewrite.h"
#include "passes/simplify/simplify.h"

namespace nabla::passes {
namespace {

using ir::FunctionPtr;
using ir::Node;
using ir::ValueId;

// Larger results are folded only when they are smaller than what they are made of: a bundle should not swell.
constexpr int64_t kMaxElements = 4096;

class Folder {
 public:
  explicit Folder(const FunctionPtr& f) : f_(f), values_(f->values.size()) {}

  FunctionPtr run(const ir::Module& module, const ir::OpTable& ops) {
    FunctionCopy copy(*f_, ops, &module);
    bool changed = false;
    for (const Node& node : f_->nodes) {
      if (node.op->lower == ir::Lowering::kConstant) values_[node.results[0]] = node.attrs.get_literal("value");
      if (!can_fold(node)) {
        copy.copy(node);
        continue;
      }
      std::vector<Literal> results = fold(node);
      copy.builder().set_location(node.location);
      for (size_t i = 0; i < results.size(); ++i) {
        copy.set(node.results[i], copy.builder().constant(results[i]));
        values_[node.results[i]] = std::move(results[i]);
      }
      changed = true;
    }
    return changed ? without_dead_nodes(copy.finish(), module, ops) : f_;
  }

 private:
  bool can_fold(const Node& node) const {
    // A reference that is itself a decomposition has nothing to run.
    if (node.operands.empty() || !node.op->fold.exists() || !node.op->reference.exists()) return false;
    if (node.op->traits.side_effect || node.op->traits.fence) return false;
    // A part of a constant at a rank's coordinate is another one on every rank.
    for (const auto& [name, attr] : node.attrs)
      if (const auto* sizes = std::get_if<ir::Shape>(&attr))
        if (!std::all_of(sizes->begin(), sizes->end(), [](const ir::Dim& d) { return d.is_static(); })) return false;
    int64_t elements = 0, results = 0;
    for (ValueId id : node.operands) {
      if (!values_[id]) return false;
      elements += values_[id]->size();
    }
    for (ValueId id : node.results) {
      if (!f_->type(id).is_static()) return false;
      results += count_of(f_->type(id).extents());
    }
    return results <= kMaxElements || results < elements;
  }

  std::vector<Literal> fold(const Node& node) const {
    std::vector<Literal> operands;
    for (ValueId id : node.operands) operands.push_back(*values_[id]);
    ir::TypedOp op = typed(*f_, node);
    return node.op->reference(ir::EvalContext{op, operands, nullptr});
  }

  FunctionPtr f_;
  std::vector<std::optional<Literal>> values_;  // of constants
};

}  // namespace

Result<ir::Module> fold_constants(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  for (FunctionPtr& f : out.functions) f = Folder(f).run(out, context.ops);
  return out;
}

}  // namespace nabla::passes
