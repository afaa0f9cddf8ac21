#include "cli/driver/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/driver/report_text.h"
#include "ir/cost/time.h"
#include "passes/strategy/state_roles.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

Result<std::vector<std::string>> axes_of(const ir::Module& m, const std::string& given) {
  std::vector<std::string> out;
  if (m.mesh() && !given.empty())
    return error(Code::kBadOption, "--axes names axes for a module without a mesh; this one has mesh {}", m.mesh()->name);
  std::istringstream names(given.empty() ? "dp" : given);
  for (std::string name; !m.mesh() && std::getline(names, name, ',');) out.push_back(name);
  if (!m.mesh()) return out;
  for (const ir::MeshAxis& a : m.mesh()->axes)
    if (!a.temporal) out.push_back(a.name);
  return out;
}

// All ways to write `ranks` as a product of so many factors.
std::vector<std::vector<int64_t>> products(int64_t ranks, size_t factors) {
  if (factors == 1) return {{ranks}};
  std::vector<std::vector<int64_t>> out;
  for (int64_t first = ranks; first >= 1; --first) {
    if (ranks % first != 0) continue;
    for (std::vector<int64_t>& rest : products(ranks / first, factors - 1)) {
      rest.insert(rest.begin(), first);
      out.push_back(std::move(rest));
    }
  }
  return out;
}

Result<std::string> entry_of(const ir::Module& m, const std::string& wanted) {
  std::vector<std::string> names;
  for (const ir::Entry& e : m.entries) names.push_back(e.name);
  if (names.empty()) return error(Code::kBadOption, "the module has no entry, and nothing to plan");
  if (!wanted.empty() && !m.find_entry(wanted))
    return error(Code::kBadOption, "--entry: the module has no entry `{}`{}", wanted, did_you_mean(wanted, names));
  if (!wanted.empty()) return wanted;
  if (m.stage == ir::Stage::kTraced) {
    passes::StateRoles roles = NABLA_TRY(passes::roles_of_state(m));
    for (size_t e = 0; e < names.size(); ++e)
      if (roles.trains[e]) return names[e];
  }
  if (names.size() == 1) return names[0];
  Diagnostic d = error(Code::kBadOption, "no entry computes gradients: --entry says whose run is a step");
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  d.help = "there are " + list;
  return d;
}

// Of a CPU: one thread computes products and reads and writes what kernels move, and does not do both at once.
double compute_us(const Json& entry, const ir::Target& target) {
  if (entry.contains("least_us")) return entry["least_us"].get<double>();
  constexpr double kBytesPerUs = 1e4;
  double products = ir::thread_ns_of_products(entry["flops"].get<double>(), target.lanes(DType::kF32)) / 1e3;
  return std::max(products, entry["bytes_moved"].get<double>() / kBytesPerUs);
}

Status fill(const ir::Module& module, const CompileOptions& options, const std::string& entry, PlanRow& row) {
  CompiledModule made = NABLA_TRY(lower_module(module, options));
  Json report = Json::parse(made.report);
  row.state_bytes = report["state_bytes"], row.memory_bytes = report["arena_bytes"];
  for (const Json& e : report["entries"]) {
    if (e["name"] != entry) continue;
    row.sent_bytes = e.value("sent_bytes", int64_t{0}), row.exchange_us = e.value("exchange_us", 0.0);
    row.compute_us = compute_us(e, made.target);
  }
  return Ok{};
}

}  // namespace

Result<std::vector<PlanRow>> plan_of(const ir::Module& module, const PlanOptions& options,
                                     const std::function<void(size_t done, size_t all)>& progress) {
  const std::vector<std::string> axes = NABLA_TRY(axes_of(module, options.axes));
  std::string entry = NABLA_TRY(entry_of(module, options.entry)), data = options.data_axis;
  bool has_dp = std::find(axes.begin(), axes.end(), "dp") != axes.end();
  if (data.empty() && !axes.empty()) data = has_dp ? "dp" : axes[0];
  auto at = std::find(axes.begin(), axes.end(), data);
  if (axes.empty()) return error(Code::kBadOption, "no ranks lie along mesh {}: its axis is temporal", module.mesh()->name);
  if (at == axes.end() && module.mesh() && module.mesh()->size_of(data) > 0)
    return error(Code::kBadOption, "--data-axes: axis {} is temporal: no ranks lie along it", data);
  if (at == axes.end())
    return error(Code::kBadOption, "--data-axes: the mesh has no axis `{}`{}", data, did_you_mean(data, axes));
  (void)NABLA_TRY(ir::find_target(options.compile.target));
  std::vector<PlanRow> out;
  for (const std::vector<int64_t>& sizes : products(options.ranks, axes.size())) {
    PlanRow row;
    for (size_t i = 0; i < axes.size(); ++i) row.mesh += fmt::format("{}{}={}", i ? "," : "", axes[i], sizes[i]);
    for (int zero : {0, 1, 3})
      if (zero == 0 || sizes[static_cast<size_t>(at - axes.begin())] > 1) row.zero = zero, out.push_back(row);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (progress) progress(i, out.size());
    CompileOptions compile = options.compile;
    compile.mesh = {out[i].mesh};
    compile.pass_options["apply-strategy"]["data-axes"] = data;
    compile.pass_options["apply-strategy"]["zero"] = std::to_string(out[i].zero);
    Status made = fill(module, compile, entry, out[i]);
    if (!made.ok()) out[i].refusal = made.errors()[0].message;
  }
  std::stable_sort(out.begin(), out.end(), [](const PlanRow& a, const PlanRow& b) {
    return std::make_pair(!a.refusal.empty(), a.step_us()) < std::make_pair(!b.refusal.empty(), b.step_us());
  });
  return out;
}

std::string plan_text(const std::vector<PlanRow>& rows, int64_t max_bytes) {
  size_t width = 4;
  for (const PlanRow& r : rows) width = std::max(width, r.mesh.size());
  std::string out = fmt::format("{:<{}}  zero  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}\n", "mesh", width, "state", "memory", "sent",
                                "exchange", "compute", "step");
  auto is_large = [&](const PlanRow& r) { return r.memory_bytes > max_bytes; };
  for (bool large : {false, true})
    for (const PlanRow& r : rows) {
      if (r.refusal.empty() ? is_large(r) != large : !large) continue;
      out += fmt::format("{:<{}}  {:<4}  ", r.mesh, width, r.zero);
      if (!r.refusal.empty()) {
        out += r.refusal + "\n";
        continue;
      }
      out += fmt::format("{:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}{}\n", bytes_text(r.state_bytes), bytes_text(r.memory_bytes),
                         bytes_text(r.sent_bytes), time_text(r.exchange_us), time_text(r.compute_us), time_text(r.step_us()),
                         large ? "  more than --max-bytes" : "");
    }
  return out;
}

std::string plan_json(const std::vector<PlanRow>& rows) {
  Json out = Json::array();
  for (const PlanRow& r : rows) {
    Json row = {{"mesh", r.mesh}, {"zero", r.zero}};
    if (!r.refusal.empty())
      row["refusal"] = r.refusal;
    else
      row.update({{"state_bytes", r.state_bytes},
                  {"memory_bytes", r.memory_bytes},
                  {"sent_bytes", r.sent_bytes},
                  {"exchange_us", r.exchange_us},
                  {"compute_us", r.compute_us},
                  {"step_us", r.step_us()}});
    out.push_back(std::move(row));
  }
  return out.dump(1);
}

}  // namespace nabla::driver
