// The part of the report that is known only when kernels are compiled.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/driver/report.h"
#include "cli/driver/report_model.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

// A multiprocessor holds no more warps than the grid has.
Json grid(const codegen::CodeGrid& g) {
  int64_t blocks = g.blocks.bounds().max, block_warps = (g.threads + 31) / 32;
  Json out = {{"symbol", g.symbol}, {"blocks", blocks}, {"threads", g.threads}, {"shared_bytes", g.shared_bytes}};
  if (!g.warnings.empty()) out["warnings"] = g.warnings;
  if (g.registers == 0) return out;
  out["registers"] = g.registers;
  out["local_bytes"] = g.local_bytes;
  out["static_shared_bytes"] = g.static_shared_bytes;
  out["resident_warps"] = std::min<int64_t>(g.resident_warps, std::min<int64_t>(blocks, 1 << 20) * block_warps);
  return out;
}

}  // namespace

std::string with_code(const std::string& report, const codegen::TargetCode& code) {
  Json out = Json::parse(report);
  for (size_t i = 0; i < code.kernels.size(); ++i) {
    Json& grids = out["kernels"][i]["grids"] = Json::array();
    for (const codegen::CodeGrid& g : code.kernels[i].grids) grids.push_back(grid(g));
    out["kernels"][i]["expected"] = expected_of(code.kernels[i].grids);
  }
  add_predictions(out);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace nabla::driver
