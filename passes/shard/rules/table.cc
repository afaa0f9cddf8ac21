// The rule of an op, among those of all subjects.
#include "passes/shard/rules/families.h"
#include "runtime/base/check.h"

namespace nabla::passes {

const OpRule* rule_of(const ir::OpDef& op) {
  if (op.rank_rule == ir::RankRule::kNone) return nullptr;
  for (auto rules : {attention_rules, convolution_rules, cut_rules, dynamic_rules, indexed_rules, order_rules, rows_rules, scan_rules})
    for (const OpRule& rule : rules())
      if (rule.rule == op.rank_rule) return &rule;
  NABLA_CHECK(false, "{}: its rank rule has no row", op.name);
  return nullptr;
}

namespace {

// Would ranks combine floating-point numbers?
bool leaves_sums(const RuleContext& c, const Ruled& ruled) {
  for (size_t r = 0; r < ruled.layouts.size(); ++r)
    if (!ruled.layouts[r].pending.empty() && is_float(c.op.results[r].dtype)) return true;
  return false;
}

}  // namespace

std::optional<Ruled> by_rule(const RuleContext& c) {
  const OpRule* own = rule_of(*c.n.op);
  if (own && own->reorders && c.deterministic) own = nullptr;
  std::optional<Ruled> best = own ? own->apply(c) : std::nullopt;
  if (best && c.deterministic && leaves_sums(c, *best)) best.reset();
  std::optional<Ruled> exchange = exchanged(c);
  return exchange && (!best || exchange->bytes < best->bytes) ? exchange : best;
}

}  // namespace nabla::passes
