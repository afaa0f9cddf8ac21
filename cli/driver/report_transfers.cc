#include "cli/driver/report_transfers.h"

#include <algorithm>

#include "cli/driver/report_graph.h"
#include "ir/cost/time.h"
#include "ir/op_def.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

// The leaf that a copy reads or writes.
int leaf_of(const ir::Function& f, const ir::Entry& entry, const ir::Node& n, bool out) {
  const std::vector<ir::ValueId>& border = out ? f.results : f.params;
  auto at = std::find(border.begin(), border.end(), out ? n.results[0] : n.operands[0]) - border.begin();
  return (out ? entry.writes : entry.reads).at(static_cast<size_t>(at));
}

}  // namespace

Json transfers_of(const ir::Module& planned, const ir::Entry& entry, const ir::Target& target) {
  const ir::Function& f = *planned.find(entry.function);
  Json all;
  for (bool out : {false, true}) {
    Json leaves = Json::array();
    int64_t bytes = 0, copies = 0;
    for (const ir::Node& n : f.nodes) {
      if (n.op->lower != ir::Lowering::kTransfer || (n.op->name == "to_host") != out) continue;
      const ir::StateLeaf& leaf = planned.state[static_cast<size_t>(leaf_of(f, entry, n, out))];
      auto known = std::find_if(leaves.begin(), leaves.end(), [&](const Json& l) { return l["name"] == leaf.name; });
      if (known == leaves.end())
        leaves.push_back({{"name", leaf.name}, {"bytes", leaf.type.bytes().value()}, {"copies", 1}, {"source", place_of(n.location)}});
      else
        (*known)["copies"] = (*known)["copies"].get<int64_t>() + 1;
      bytes += leaf.type.bytes().value(), ++copies;
    }
    if (copies == 0) continue;
    all[out ? "to_host" : "to_device"] = {{"bytes", bytes},
                                          {"copies", copies},
                                          {"us", static_cast<double>(bytes) / ir::host_bytes_per_us(target)},
                                          {"leaves", std::move(leaves)}};
  }
  return all;
}

}  // namespace nabla::driver
