#include "cli/driver/report_model.h"

#include <algorithm>

#include "codegen/cuda/model.h"
#include "ir/cost/grid_work.h"
#include "ir/cost/time.h"
#include "ir/op_def.h"
#include "passes/rewrite.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

Json expected(const codegen::GridPrediction& p) {
  return {{"counted", p.counted},
          {"instructions", p.instructions},
          {"sectors", p.sectors},
          {"code_us", p.code_us},
          {"sectors_us", p.sectors_us}};
}

struct Runs {
  std::map<std::string, double> kernels;
  std::map<int, double> calls;  // by row

  void add(const Runs& other, double times) {
    for (const auto& [name, n] : other.kernels) kernels[name] += n * times;
    for (const auto& [row, n] : other.calls) calls[row] += n * times;
  }
};

// Of functions, each once.
class RunTotals {
 public:
  RunTotals(const ir::Module& planned, const std::map<const ir::Node*, int>& row_of, LeastTimes& times)
      : planned_(planned), row_of_(row_of), times_(times) {}

  const Runs& of(const std::string& name) {
    if (auto known = done_.find(name); known != done_.end()) return known->second;
    const ir::Function& f = *planned_.find(name);
    Runs out;
    for (const ir::Node& n : f.nodes) {
      if (n.op->lower == ir::Lowering::kCall) ++out.kernels[n.attrs.get_string("kernel")];
      if (auto row = row_of_.find(&n); row != row_of_.end()) ++out.calls[row->second];
      if (n.op->lower == ir::Lowering::kControl) control(passes::control_of(f, n), out);
    }
    return done_[name] = std::move(out);
  }

 private:
  void control(const ir::ControlFlow& c, Runs& out) {
    if (c.functions.empty()) return;
    auto longer = [&](const std::string& a, const std::string& b) { return times_.function(a).us < times_.function(b).us; };
    double times = c.kind == ir::ControlFlow::Kind::kLoop ? static_cast<double>(c.trips.bounds().max) : 1;
    if (c.kind == ir::ControlFlow::Kind::kBranch) return out.add(of(*std::max_element(c.functions.begin(), c.functions.end(), longer)), 1);
    for (const std::string& name : c.functions) out.add(of(name), times);
  }

  const ir::Module& planned_;
  const std::map<const ir::Node*, int>& row_of_;
  LeastTimes& times_;
  std::map<std::string, Runs> done_;
};

// The grids of a kernel run one after the other; its arrays go to memory and back once.
void predict_kernel(Json& kernel) {
  double us = 0, instructions = 0, sectors = 0;
  for (const Json& grid : kernel.at("expected")) {
    us += std::max(grid.at("code_us").get<double>(), grid.at("sectors_us").get<double>());
    instructions += grid.at("instructions").get<double>(), sectors += grid.at("sectors").get<double>();
  }
  us = std::max(us, kernel.at("moved_us").get<double>()) + ir::kLaunchUs * static_cast<double>(kernel.at("expected").size());
  kernel["predicted_us"] = us, kernel["warp_instructions"] = instructions, kernel["sectors"] = sectors;
}

}  // namespace

Json expected_of(const kernel_ir::Kernel& kernel, const ir::Target& target) {
  Json out = Json::array();
  for (size_t i = 0; i < cuda_schedule_of(kernel).grids.size(); ++i)
    out.push_back(expected(codegen::predict_grid(kernel, i, target, nullptr)));
  return out;
}

Json expected_of(const std::vector<codegen::CodeGrid>& grids) {
  Json out = Json::array();
  for (const codegen::CodeGrid& g : grids) out.push_back(expected(g.predicted));
  return out;
}

void add_runs(const ir::Module& planned, const std::map<const ir::Node*, int>& row_of, LeastTimes& times, Json& report) {
  RunTotals totals(planned, row_of, times);
  for (Json& e : report["entries"]) {
    const Runs& runs = totals.of(e["function"].get<std::string>());
    e["runs"] = {{"kernels", Json::object()}, {"library_calls", Json::array()}};
    for (const auto& [name, n] : runs.kernels) e["runs"]["kernels"][name] = n;
    for (const auto& [row, n] : runs.calls) e["runs"]["library_calls"].push_back({row, n});
  }
}

void add_predictions(Json& report) {
  std::map<std::string, const Json*> kernels;
  if (!report.contains("entries")) return;
  if (report.contains("kernels"))
    for (Json& k : report["kernels"]) predict_kernel(k), kernels[k["name"].get<std::string>()] = &k;
  for (Json& e : report["entries"]) {
    double us = 0, of_library = 0, launches = 0, instructions = 0, sectors = 0;
    bool counted = true;
    for (const auto& [name, n] : e.at("runs").at("kernels").items()) {
      const Json& k = *kernels.at(name);
      const double runs = n.get<double>();
      us += runs * k["predicted_us"].get<double>(), launches += runs * static_cast<double>(k["expected"].size());
      instructions += runs * k["warp_instructions"].get<double>(), sectors += runs * k["sectors"].get<double>();
      for (const Json& grid : k["expected"]) counted &= grid["counted"].get<bool>();
    }
    for (const Json& call : e.at("runs").at("library_calls")) {
      const Json& row = report["library_calls"][call[0].get<size_t>()];
      const double runs = call[1].get<double>();
      of_library += runs * row["predicted_us"].get<double>(), launches += runs;
      sectors += runs * row["buffer_bytes"].get<double>() / ir::kSectorBytes;
    }
    e["predicted"] = {{"us", us + of_library}, {"library_us", of_library}, {"launches", launches},
                      {"warp_instructions", instructions}, {"sectors", sectors}, {"counted", counted}};
  }
}

}  // namespace nabla::driver
