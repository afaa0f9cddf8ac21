#include "passes/transform/expand_composites.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

/// One level: a decomposition may hold composites again.
ir::FunctionPtr expand_once(const ir::Function& f, const ir::Module& module, const PassContext& context) {
  FunctionCopy copy(f, context.ops, &module);
  for (const ir::Node& node : f.nodes) {
    if (!must_expand(f, node, context.target)) {
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
    while (std::any_of(f->nodes.begin(), f->nodes.end(),
                       [&](const ir::Node& n) { return must_expand(*f, n, context.target); })) {
      ScopedActivity activity("expand-composites on @" + f->name);
      f = without_dead_nodes(expand_once(*f, out, context), out, context.ops);
    }
  return out;
}

}  // namespace nabla::passes
