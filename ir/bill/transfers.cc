#include "ir/bill/transfers.h"

#include <algorithm>

#include "ir/cost/time.h"
#include "ir/op_def.h"

namespace nabla::ir {
namespace {

// The leaf that a copy reads or writes.
int leaf_of(const Function& f, const Entry& entry, const Node& n, bool out) {
  const std::vector<ValueId>& border = out ? f.results : f.params;
  auto at = std::find(border.begin(), border.end(), out ? n.results[0] : n.operands[0]) - border.begin();
  return (out ? entry.writes : entry.reads).at(static_cast<size_t>(at));
}

}  // namespace

Transfers transfers_of(const Module& planned, const Entry& entry, const Target& target, bool to_host) {
  const Function& f = *planned.find(entry.function);
  Transfers out;
  for (const Node& n : f.nodes) {
    if (n.op->lower != Lowering::kTransfer || (n.op->name == "to_host") != to_host) continue;
    const StateLeaf& leaf = planned.state[static_cast<size_t>(leaf_of(f, entry, n, to_host))];
    const int64_t bytes = leaf.type.bytes().value();
    auto known = std::find_if(out.leaves.begin(), out.leaves.end(), [&](const CopiedLeaf& l) { return l.name == leaf.name; });
    if (known == out.leaves.end())
      out.leaves.push_back({leaf.name, bytes, 1, n.location});
    else
      ++known->copies;
    out.bytes += bytes, ++out.copies;
  }
  out.us = static_cast<double>(out.bytes) / host_bytes_per_us(target);
  return out;
}

}  // namespace nabla::ir
