#include "ir/typed.h"

namespace nabla::ir {

TypedOp typed(const Function& f, const Node& node) {
  return {*node.op, f.types(node.operands), node.attrs, f.types(node.results)};
}

ControlFlow control_of(const Function& f, const Node& node) { return node.op->control(typed(f, node)); }

}  // namespace nabla::ir
