// How ranks share each op, from its record and the rules of partition.
#include <algorithm>

#include "cli/nablac/commands.h"
#include "ir/op_def.h"
#include "passes/shard/layout.h"
#include "passes/shard/rules/rules.h"

namespace nabla::cli {
namespace {

struct Way {
  std::string by;    ///< factors, a rule...
  std::string what;  ///< along dimensions that no factor cuts
};

/// Can all factors be split, and is there one that can, in every example?
struct Splits {
  bool all = true, any = false;
};
Splits splits_of(const ir::OpDef& op) {
  Splits out;
  for (const ir::Example& e : op.examples) {
    Result<ir::Attrs> attrs = ir::complete_attrs(op, e.attrs);
    std::vector<ir::Type> types;
    for (const ir::Operand& o : e.operands) types.push_back(o.type);
    auto none = [](std::string_view) -> const ir::Function* { return nullptr; };
    if (!attrs.ok()) continue;
    Result<std::vector<ir::Type>> results = ir::infer_types(op, types, *attrs, none);
    if (!results.ok()) continue;
    ir::Factors factors = op.factors(ir::TypedOp{op, types, *attrs, *results});
    for (const ir::Factors::Factor& f : factors.factors) {
      bool can = passes::can_split(f);
      out.all &= can || f.size.is(1), out.any |= can;
    }
  }
  return out;
}

Way way_of(const ir::OpDef& op) {
  if (op.lower == ir::Lowering::kCall) return {"none", "calls are inlined before"};
  if (op.lower == ir::Lowering::kTransform) return {"none", "a transform, or what is said of layouts: it is gone before"};
  if (op.lower == ir::Lowering::kCollective) return {"none", "programs for all ranks have no collectives"};
  if (op.lower == ir::Lowering::kLibrary) return {"none", "libraries are chosen after"};
  if (op.lower == ir::Lowering::kControl)
    return {"its functions", "what a branch or a body makes of its values; iterations follow each other on every rank"};
  if (op.lower == ir::Lowering::kConstant) return {"parts", "of one value for all elements; others are whole"};
  if (op.traits.side_effect) return {"refused", "it has a side effect: computed whole on every rank"};
  if (!op.factors.exists()) return {"refused", op.factors.refused() ? op.factors.reason() : "it has no factors"};
  if (const passes::OpRule* rule = passes::rule_of(op)) return {"factors, a rule", rule->doc};
  Splits splits = splits_of(op);
  if (splits.all) return {"factors", ""};
  std::string what = splits.any ? "axes move to a dimension that can be cut (all_to_all), else the operand is gathered"
                                : "no dimension can be cut: the operand is gathered";
  if (op.decompose.exists()) what = "what it consists of is shared, where that takes no more memory; else " + what;
  return {splits.any ? "factors" : "refused", what};
}

}  // namespace

std::string doc_shards(const ir::OpTable& ops) {
  std::string out =
      "# How ranks share ops\n\nMade by `nablac doc shards` from the records in `ir/ops` and the rules in\n"
      "`passes/shard/rules`; [sharding.md](sharding.md) says what it means. Dimensions that a factor cuts are computed "
      "in\n"
      "parts, and sums over them stay pending. The last column is about the other dimensions.\n\n"
      "| op | by | along other dimensions |\n|---|---|---|\n";
  for (const ir::OpDef& op : ops.all()) {
    Way way = way_of(op);
    out += fmt::format("| `{}` | {} | {} |\n", op.name, way.by, way.what);
  }
  return out;
}

}  // namespace nabla::cli
