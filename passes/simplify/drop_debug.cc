// A program without its debug prints and callbacks.
#include <algorithm>

#include "passes/simplify/simplify.h"

namespace nabla::passes {
namespace {

bool is_debug(const ir::Node& node) { return node.op->lower == ir::Lowering::kHost; }

}  // namespace

Result<ir::Module> drop_debug(const ir::Module& module, PassContext&) {
  ir::Module out = module;
  for (ir::FunctionPtr& f : out.functions) {
    if (std::none_of(f->nodes.begin(), f->nodes.end(), is_debug)) continue;
    ir::Function without = *f;
    std::erase_if(without.nodes, is_debug);  // they have no results
    f = std::make_shared<const ir::Function>(std::move(without));
  }
  return out;
}

}  // namespace nabla::passes
