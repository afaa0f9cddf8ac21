#include "passes/transform/expand_composites.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

bool expands(const ir::Node& n) { return n.op->lower == ir::Lowering::kDecompose; }

/// One level: a decomposition may hold composites again.
ir::FunctionPtr expand_once(const ir::Function& f, const ir::Module& module, const ir::OpTable& ops) {
  FunctionCopy copy(f, ops, &module);
  for (const ir::Node& node : f.nodes) {
    if (!expands(node)) {
      copy.copy(node);
      continue;
    }
    copy.builder().set_location(node.location);
    ir::TypedOp op = typed(f, node);
    ir::DecomposeContext context{copy.builder(), op, copy.at(node.operands)};
    copy.set(node.results, node.op->decompose(context));
  }
  return copy.finish();
}

}  // namespace

Result<ir::Module> expand_composites(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  for (ir::FunctionPtr& f : out.functions)
    while (std::any_of(f->nodes.begin(), f->nodes.end(), expands)) {
      ScopedActivity activity("expand-composites on @" + f->name);
      f = without_dead_nodes(expand_once(*f, out, context.ops), out, context.ops);
    }
  return out;
}

}  // namespace nabla::passes
