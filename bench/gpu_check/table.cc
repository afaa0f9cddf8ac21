// What a check found, as a table.
#include <fmt/format.h>

#include <cmath>

#include "bench/gpu_check/check.h"

namespace nabla::gpu_check {
namespace {

using nlohmann::json;

constexpr int kMostKernels = 15;  // of each model, in the table; the file has all

// JSON knows neither NaN nor infinity: what was one of them has come as null.
double real(const json& value) { return value.is_number() ? value.get<double>() : std::nan(""); }
std::string number(const json& value) {
  return value.is_string() ? value.get<std::string>() : fmt::format("{:.2g}", real(value));
}
const char* verdict(const json& row) { return row["ok"].get<bool>() ? "ok" : "FAILED"; }

std::string line_of(const json& v) {
  std::string name = v["name"], part = v["part"];
  if (v.contains("failed")) {
    std::string why = v["failed"];
    return fmt::format("  {:<30} FAILED: {}\n", name, why);
  }
  if (v.contains("note")) return fmt::format("  {:<30} {}\n", name, v["note"].get<std::string>());
  if (v.contains("ended_s"))
    return fmt::format("  {:<30} {:>10.2f} s {:>9} {:>7}\n", name, real(v["ended_s"]), v["code"].get<int>(), verdict(v));
  if (part == "ranks" && !v.contains("error")) return fmt::format("  {:<30} {:>30}\n", name, verdict(v));
  if (part == "values" || part == "libraries" || part == "ranks")
    return fmt::format("  {:<30} {:>12} {:>9} {:>7}\n", name, number(v["error"]), number(v["tolerance"]), verdict(v));
  if (part == "ceilings")
    return fmt::format("  {:<30} {:>12.1f} {:<8} {:>6.1f}%\n", name, real(v["value"]),
                       v["unit"].get<std::string>(), 100 * real(v["share"]));
  if (part == "training")
    return fmt::format("  {:<30} {:>9.2f} ms  {:>12.0f} tokens/s {:>8.1f} TFLOP/s  MFU {:>5.1f}%  loss {} -> {} {:>7}\n",
                       name, real(v["step_ms"]), real(v["tokens_per_second"]),
                       real(v["tflops"]), 100 * real(v["utilisation"]), number(v["loss"][0]),
                       number(v["loss"][1]), verdict(v));
  std::string out;
  if (part == "launches")
    for (const char* what : {"run_of_one_kernel_us", "kernel_in_a_graph_us", "kernel_by_itself_us"})
      out += fmt::format("  {:<30} {:>12.2f}\n", what, real(v[what]));
  if (part == "kernels") {
    out += fmt::format("  {}: {:.1f} us in {} launches\n", name, real(v["step_us"]), v["launches"].get<int>());
    int shown = 0;
    for (const json& k : v["kernels"])
      if (++shown <= kMostKernels)
        out += fmt::format("    {:<50} {:>10.1f} us {:>6.1f}%\n", k["kernel"].get<std::string>(), real(k["us"]),
                           100 * real(k["share"]));
  }
  return out;
}

}  // namespace

std::string table(const json& machine, const std::vector<json>& rows) {
  std::string out = fmt::format("{}, compute capability {}, programs for {}, seed {}\n{}\n",
                                machine["gpu"].get<std::string>(), machine["capability"].get<int>(),
                                machine["target"].get<std::string>(), machine["seed"].get<uint64_t>(),
                                machine["nvidia_smi"].get<std::string>());
  static const std::pair<const char*, const char*> kParts[] = {
      {"values", "values: largest error against the CPU, and what is allowed"},
      {"libraries", "values by NVIDIA's libraries"},
      {"ranks", "ranks over NCCL that share the GPU: the suite of engines, losses against the CPU, the end of the others after a kill"},
      {"launches", "launches, microseconds"},
      {"ceilings", "ceilings, and their share of the datasheet"},
      {"training", "training"},
      {"kernels", "kernels of a step, by time"}};
  int failures = 0;
  for (const auto& [part, title] : kParts) {
    bool first = true;
    for (const json& row : rows) {
      if (row["part"] != part) continue;
      if (first) out += fmt::format("\n{}\n", title);
      first = false;
      failures += !row["ok"].get<bool>();
      out += line_of(row);
    }
  }
  return out + fmt::format("\n{}\n", failures == 0 ? "all is right" : fmt::format("{} FAILED", failures));
}

}  // namespace nabla::gpu_check
