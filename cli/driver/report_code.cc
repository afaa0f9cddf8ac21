// The part of the report that is known only when kernels are compiled.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/driver/report.h"
#include "ir/kernel_ir/contract.h"
#include "ir/kernel_ir/kernel.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

// At the largest sizes.
double product_flops(const kernel_ir::Kernel& kernel) {
  std::optional<kernel_ir::Contraction> c = kernel_ir::find_contraction(kernel);
  if (!c) return 0;
  double flops = 2;
  std::vector<int> axes = c->batch;
  axes.insert(axes.end(), {c->m, c->n, c->k});
  for (int a : axes) flops *= static_cast<double>(kernel.axes[a].extent.bounds().max);
  return flops;
}

Json grid(const CodeGrid& g) {
  Json out = {{"symbol", g.symbol},
              {"blocks", g.blocks.bounds().max},
              {"threads", g.threads},
              {"shared_bytes", g.shared_bytes}};
  if (g.registers == 0) return out;
  out["registers"] = g.registers;
  out["local_bytes"] = g.local_bytes;
  out["static_shared_bytes"] = g.static_shared_bytes;
  out["resident_warps"] = g.resident_warps;
  return out;
}

}  // namespace

std::string with_code(const std::string& report, const ir::Module& planned, const ir::Target& target,
                      const TargetCode& code) {
  Json out = Json::parse(report);
  out["machine"]["resident_warps"] = target.cuda.resident_threads / 32;
  for (size_t i = 0; i < planned.kernels.size(); ++i) {
    Json& row = out["kernels"][i];
    row["grids"] = Json::array();
    for (const CodeGrid& g : code.kernels[i].grids) row["grids"].push_back(grid(g));
    double us = std::max(row["buffer_bytes"].get<double>() / (target.cuda.copy_gbs * 1e3),
                         product_flops(*planned.kernels[i]) / (target.cuda.f32_tflops * 1e6));
    row["least_us"] = us;
  }
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace nabla::driver
