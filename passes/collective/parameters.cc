#include "passes/collective/parameters.h"

#include "ir/op_def.h"

namespace nabla::passes {
namespace {

bool brings(const ir::Node& n) {
  return n.operands.size() == 1 && (n.op->category == "movement" || n.op->name == "convert") && n.op->name != "copy";
}

}  // namespace

std::vector<bool> brought_from_parameters(const ir::Function& f) {
  std::vector<bool> out(f.values.size(), false);
  for (ir::ValueId id : f.params) out[static_cast<size_t>(id)] = true;
  for (const ir::Node& n : f.nodes)
    for (ir::ValueId id : n.results) out[static_cast<size_t>(id)] = brings(n) && out[static_cast<size_t>(n.operands[0])];
  return out;
}

}  // namespace nabla::passes
