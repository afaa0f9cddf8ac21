#include "passes/shard/layout_nodes.h"

#include <algorithm>

#include "passes/rewrite.h"
#include "passes/shard/manual_regions.h"

namespace nabla::passes {

using ir::FunctionPtr;
using ir::Node;

bool is_about_layouts(const Node& n) {
  using ir::LayoutRole;
  const LayoutRole role = n.op->layout_role;
  return role == LayoutRole::kShard || role == LayoutRole::kShardAs || role == LayoutRole::kByRule || role == LayoutRole::kBarrier;
}

ir::Module without_layouts(const ir::Module& module) {
  ir::Module out = module;
  out.stage = ir::Stage::kLocal;
  for (ir::StateLeaf& leaf : out.state) leaf.sharding = nullptr;
  return out;
}

FunctionPtr without_shard_nodes(const FunctionPtr& f, const ir::Module& m, const ir::OpTable& ops) {
  auto is_identity = [](const Node& n) { return is_about_layouts(n) || is_border(n); };
  if (std::none_of(f->nodes.begin(), f->nodes.end(), is_identity)) return f;
  FunctionCopy copy(*f, ops, &m);
  for (const Node& n : f->nodes)
    if (is_identity(n))
      for (size_t r = 0; r < n.results.size(); ++r) copy.set(n.results[r], copy.at(n.operands[r]));
    else
      copy.copy(n);
  return copy.finish();
}

}  // namespace nabla::passes
