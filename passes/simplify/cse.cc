// Equal nodes are computed once.
#include <algorithm>
#include <map>

#include "passes/rewrite.h"
#include "passes/simplify/simplify.h"

namespace nabla::passes {
namespace {

using ir::FunctionPtr;
using ir::Node;
using ir::ValueId;

FunctionPtr merged(const FunctionPtr& f, const ir::Module& module, const ir::OpTable& ops) {
  FunctionCopy copy(*f, ops, &module);
  using Key = std::pair<const ir::OpDef*, std::vector<ValueId>>;
  std::map<Key, std::vector<const Node*>> seen;  // of equal op and operands; attributes are compared one by one
  bool changed = false;
  for (const Node& node : f->nodes) {
    if (node.op->traits.fence || ir::has_effect(node, module)) {
      copy.copy(node);
      continue;
    }
    Key key{node.op, {}};
    for (ir::Val v : copy.at(node.operands)) key.second.push_back(v.id);
    if (node.op->traits.commutative) std::sort(key.second.begin(), key.second.end());
    std::vector<const Node*>& equal = seen[key];
    auto twin = std::find_if(equal.begin(), equal.end(), [&](const Node* n) { return n->attrs == node.attrs; });
    if (twin == equal.end()) {
      copy.copy(node);
      equal.push_back(&node);
      continue;
    }
    copy.set(node.results, copy.at((*twin)->results));
    changed = true;
  }
  return changed ? copy.finish() : f;
}

}  // namespace

Result<ir::Module> merge_common_subexpressions(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  for (FunctionPtr& f : out.functions) f = merged(f, out, context.ops);
  return out;
}

Result<ir::Module> eliminate_dead_code(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  for (FunctionPtr& f : out.functions) f = without_dead_nodes(f, out, context.ops);
  return out;
}

}  // namespace nabla::passes
