// What a check found, as a table.
#include <fmt/format.h>

#include "bench/gpu_check/check.h"

namespace nabla::gpu_check {
namespace {

constexpr int kMostKernels = 15;  // of each model, in the table; the file has all

const char* verdict(const nlohmann::json& row) { return row["ok"].get<bool>() ? "ok" : "FAILED"; }

std::string number(const nlohmann::json& value) {
  return value.is_number() ? fmt::format("{:.2g}", value.get<double>()) : value.get<std::string>();
}

}  // namespace

std::string table(const nlohmann::json& r) {
  std::string out = fmt::format("{}, compute capability {}, programs for {}, seed {}\n", r["gpu"].get<std::string>(),
                                r["capability"].get<int>(), r["target"].get<std::string>(), r["seed"].get<uint64_t>());
  auto rows = [&](const char* part, const char* title, auto line) {
    if (!r.contains(part)) return;
    out += fmt::format("\n{}\n", title);
    for (const auto& row : r[part]) out += line(row);
  };
  rows("values", "values: largest error against the CPU, and what is allowed", [](const auto& v) {
    return fmt::format("  {:<24} {:>12} {:>9} {:>7}\n", v["entry"].template get<std::string>(), number(v["error"]),
                       number(v["tolerance"]), verdict(v));
  });
  if (r.contains("launches")) {
    out += "\nlaunches, microseconds\n";
    for (const auto& [what, value] : r["launches"].items())
      out += fmt::format("  {:<24} {:>12.2f}\n", what, value.template get<double>());
  }
  rows("ceilings", "ceilings, and their share of the datasheet", [](const auto& v) {
    return fmt::format("  {:<24} {:>12.1f} {:<8} {:>6.1f}%\n", v["what"].template get<std::string>(),
                       v["value"].template get<double>(), v["unit"].template get<std::string>(),
                       100 * v["share"].template get<double>());
  });
  rows("training", "training", [](const auto& v) {
    return fmt::format(
        "  {:<24} {:>9.2f} ms  {:>12.0f} tokens/s {:>8.1f} TFLOP/s  MFU {:>5.1f}%  loss {:.3f} -> {:.3f} {:>7}\n",
        v["model"].template get<std::string>(), v["step_ms"].template get<double>(),
        v["tokens_per_second"].template get<double>(), v["tflops"].template get<double>(),
        100 * v["utilisation"].template get<double>(), v["loss"][0].template get<double>(),
        v["loss"][1].template get<double>(), verdict(v));
  });
  std::string model;
  int shown = 0;
  rows("kernels", "kernels of a step, by time", [&](const auto& v) {
    if (v["model"] != model) model = v["model"], shown = 0;
    if (++shown > kMostKernels) return std::string();
    return fmt::format("  {:<8} {:<40} {:>10.1f} us {:>6.1f}%\n", model, v["kernel"].template get<std::string>(),
                       v["us"].template get<double>(), 100 * v["share"].template get<double>());
  });
  return out + fmt::format("\n{}\n", r["failures"] == 0 ? "all values are right"
                                                        : fmt::format("{} FAILED", r["failures"].get<int>()));
}

}  // namespace nabla::gpu_check
