#include "passes/shard/open_composites.h"

#include <algorithm>
#include <set>

#include "passes/rewrite.h"
#include "passes/shard/layout.h"
#include "passes/shard/rules/rules.h"

namespace nabla::passes {
namespace {

using ir::Factors;
using ir::Function;
using ir::Node;

int64_t bytes_of(const Function& f, ir::ValueId id) { return f.type(id).bytes().bounds().max; }

// Does a value lie along a dimension that the op cannot be split along?
bool lies_across(const Function& f, const Node& n) {
  Factors factors = n.op->factors(typed(f, n));
  auto across = [&](const std::vector<ir::ValueId>& values, const std::vector<Factors::Tensor>& tensors) {
    for (size_t i = 0; i < values.size(); ++i) {
      const ir::ShardingRef& s = f.values[values[i]].sharding;
      for (size_t d = 0; s && d < tensors[i].size(); ++d)
        if (!s->dims[d].axes.empty() && std::any_of(tensors[i][d].begin(), tensors[i][d].end(),
                                                    [&](int k) { return !can_split(factors.factors[k]); }))
          return true;
    }
    return false;
  };
  return across(n.operands, factors.operands) || across(n.results, factors.results);
}

// Can ranks share all that the composite consists of, in no more memory?
bool may_open(const Function& f, const Node& n, const ir::Module& m, const PassContext& context, int levels) {
  if (!n.op->decompose.exists() || levels == 0) return false;
  Function parts = decomposition(typed(f, n), n.location, context.ops, &m);
  int64_t most = 0;
  for (const auto* ids : {&n.operands, &n.results})
    for (ir::ValueId id : *ids) most = std::max(most, bytes_of(f, id));
  for (const Node& part : parts.nodes) {
    for (ir::ValueId id : part.results)
      if (bytes_of(parts, id) > 2 * most) return false;
    if (part.op->lower == ir::Lowering::kConstant) continue;
    if (!part.op->factors.exists()) return false;
    Factors factors = part.op->factors(typed(parts, part));
    if (!std::all_of(factors.factors.begin(), factors.factors.end(), can_split) &&
        !may_open(parts, part, m, context, levels - 1))
      return false;
  }
  return true;
}

}  // namespace

std::shared_ptr<const ir::Module> with_open_composites(const ir::Module& flat,
                                                       const std::function<bool(size_t, const Node&)>& wanted,
                                                       PassContext& context) {
  auto out = std::make_shared<ir::Module>(flat);
  bool any = false;
  for (size_t i = 0; i < flat.functions.size(); ++i) {
    const Function& f = *flat.functions[i];
    std::set<const Node*> opened;
    for (const Node& n : f.nodes)
      if (n.op->decompose.exists() && n.op->factors.exists() && !rule_of(*n.op) && wanted(i, n) &&
          may_open(f, n, flat, context, kMostCompositeLevels))
        opened.insert(&n);
    if (opened.empty()) continue;
    any = true;
    FunctionCopy copy(f, context.ops, &flat);
    for (const Node& n : f.nodes) {
      if (!opened.count(&n)) {
        copy.copy(n);
        continue;
      }
      copy.builder().set_location(n.location);
      ir::TypedOp op = typed(f, n);
      ir::DecomposeContext parts{copy.builder(), op, copy.at(n.operands)};
      copy.set(n.results, n.op->decompose(parts));
    }
    out->functions[i] = without_dead_nodes(copy.finish(), flat, context.ops);
  }
  return any ? out : nullptr;
}

std::shared_ptr<const ir::Module> open_composites(const ir::Module& flat, const ir::Module& sharded, PassContext& context) {
  auto across = [&](size_t f, const Node& n) {
    auto at = static_cast<size_t>(&n - flat.functions[f]->nodes.data());
    return lies_across(*sharded.functions[f], sharded.functions[f]->nodes[at]);
  };
  return with_open_composites(flat, across, context);
}

}  // namespace nabla::passes
