#include "passes/shard/partition_plan.h"

namespace nabla::passes {
namespace {

std::string str(const Layout& layout) {
  std::string out;
  for (const ir::Axes& dim : layout.dims) out += (out.empty() ? "" : ", ") + ir::str(dim);
  return "<" + out + ">" + (layout.pending.empty() ? "" : " + " + ir::str(layout.pending));
}

const char* name_of(NodePlan how) {
  switch (how) {
    case NodePlan::kNone:
      return "resharded";
    case NodePlan::kReplicated:
      return "replicated";
    case NodePlan::kSplit:
      return "split";
    case NodePlan::kByRule:
      return "by rule";
    case NodePlan::kControl:
      return "control";
  }
  return "";
}

}  // namespace

std::string str(const PartitionPlan& plan, const ir::Function& f) {
  std::string out = "plan of @" + plan.function + "\n";
  for (const PlannedNode& n : plan.nodes) {
    out += "  ";
    for (size_t r = 0; r < n.results.size(); ++r)
      out += fmt::format("{}{} {}", r == 0 ? "" : ", ", ir::value_name(f, n.node->results[r]), str(n.results[r].layout));
    out += fmt::format(" = {}, {}", n.node->op->name, name_of(n.how));
    for (size_t i = 0; i < n.brought.size(); ++i) {
      out += fmt::format("{}{} {}", i == 0 ? ": " : ", ", ir::value_name(f, n.node->operands[i]), str(n.layouts[i]));
      if (!(n.layouts[i] == n.brought[i])) out += " -> " + str(n.brought[i]);
    }
    out += "\n";
  }
  return out;
}

}  // namespace nabla::passes
