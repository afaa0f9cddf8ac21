#include "bench/gpu_check/check.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "bench/gpu_check/session.h"
#include "runtime/format/file.h"

namespace nabla::gpu_check {
namespace {

using nlohmann::json;

// The largest error of two results in units of |error| <= 1 + |want|; infinite where one is NaN and the other is not.
double distance(const Literal& got, const Literal& want) {
  double worst = 0;
  for (int64_t i = 0; i < want.size(); ++i) {
    double g = got.get(i), w = want.get(i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    double error = std::abs(g - w) / (1 + std::abs(w));
    worst = std::max(worst, std::isnan(error) ? HUGE_VAL : error);
  }
  return worst;
}

Result<json> one_kind(Check& check, exec::Session& gpu, exec::Session& cpu, const json& kind) {
  std::string name = kind["entry"];
  int on_gpu = NABLA_TRY(gpu.need_entry(name)), on_cpu = NABLA_TRY(cpu.need_entry(name));
  const exec::EntryInfo& info = gpu.entries()[on_gpu];
  double worst = 0;
  // Issued the first time, replayed as a graph from the second on, with other inputs each time.
  for (int round = 0; round < 3; ++round) {
    std::vector<Literal> inputs = drawn_inputs(info, kind["integers"], check.random);
    std::vector<Literal> got = poisoned_outputs(info), want = poisoned_outputs(info);
    NABLA_TRY(run(gpu, on_gpu, inputs, got));
    NABLA_TRY(run(cpu, on_cpu, inputs, want));
    for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, distance(got[i], want[i]));
  }
  bool ok = worst <= kind["tolerance"].get<double>();
  check.failures += !ok;
  return json{{"entry", name},
              {"error", std::isfinite(worst) ? json(worst) : json("not a number")},
              {"tolerance", kind["tolerance"]},
              {"ok", ok}};
}

// Spans of the kernels of one run of an entry: name -> microseconds, and how many there were.
struct Spans {
  std::map<std::string, double> microseconds;
  int count = 0;
};
Result<Spans> traced(const Check& check, const std::string& bundle, const std::string& entry, int64_t integers,
                     const std::vector<std::string>& before) {
  std::string path = std::filesystem::temp_directory_path() / ("gpu_check_" + bundle + ".json");
  std::mt19937_64 random(1);
  for (bool last : {false, true}) {  // the first run of a process loads the kernels
    auto session = NABLA_TRY(open(check.folder, bundle, check.plan["target"], path));
    for (const std::string& name : before) NABLA_TRY(run_once(*session, name, integers, random));
    if (last) NABLA_TRY(run_once(*session, entry, integers, random));
    NABLA_TRY(run_once(*session, entry, integers, random));
    NABLA_TRY(session->finish());
  }
  std::ifstream in(path);
  json events = json::parse(in, nullptr, false);
  std::filesystem::remove(path);
  if (events.is_discarded()) return error(Code::kForeignFile, "the trace {} cannot be read", path);
  // Spans of the last run: those after the begin of the last span of the entry.
  double begin = 0;
  for (const json& e : events["traceEvents"])
    if (e.value("cat", "") == "entry" && e["name"] == entry) begin = std::max(begin, e["ts"].get<double>());
  Spans out;
  for (const json& e : events["traceEvents"]) {
    std::string category = e.value("cat", "");
    if (category == "entry" || category.empty() || e["ts"].get<double>() < begin) continue;
    out.microseconds[e["name"]] += e["dur"].get<double>();
    ++out.count;
  }
  return out;
}

}  // namespace

Status Check::keep(bool complete) {
  result["failures"] = failures;
  result["complete"] = complete;
  return results.empty() ? Status(Ok{}) : format::write_file(results, result.dump(1) + "\n");
}

Status check_values(Check& check) {
  std::string bundle;
  std::unique_ptr<exec::Session> gpu, cpu;
  for (const json& kind : check.plan["values"]) {
    if (std::string of = kind["bundle"]; of != bundle) {
      gpu.reset(), cpu.reset();
      gpu = NABLA_TRY(open(check.folder, of, check.plan["target"]));
      cpu = NABLA_TRY(open(check.folder, of + "_cpu", "cpu:x86-64-v3"));
      bundle = of;
    }
    json row = NABLA_TRY(one_kind(check, *gpu, *cpu, kind));
    check.result["values"].push_back(std::move(row));
    NABLA_TRY(check.keep());
  }
  return Ok{};
}

Status measure_launches(Check& check) {
  Spans spans = NABLA_TRY(traced(check, "speed", "chain", 8, {"fill"}));
  auto session = NABLA_TRY(open(check.folder, "speed", check.plan["target"]));
  NABLA_TRY(run_once(*session, "fill", 8, check.random));
  Timing one = NABLA_TRY(time_entry(*session, "one", 8, check.seconds, check.random));
  Timing chain = NABLA_TRY(time_entry(*session, "chain", 8, check.seconds, check.random));
  double links = std::max(1, spans.count - 1), in_trace = 0;
  for (const auto& [name, microseconds] : spans.microseconds) in_trace += microseconds;
  check.result["launches"] = {{"run_of_one_kernel_us", one.seconds * 1e6},
                              {"kernel_in_a_graph_us", (chain.seconds - one.seconds) * 1e6 / links},
                              {"kernel_by_itself_us", in_trace / std::max(1, spans.count)},
                              {"kernels", spans.count}};
  return check.keep();
}

Status measure_ceilings(Check& check) {
  auto session = NABLA_TRY(open(check.folder, "speed", check.plan["target"]));
  NABLA_TRY(run_once(*session, "fill", 8, check.random));
  auto add = [&](const std::string& what, double value, const char* unit, double datasheet) {
    check.result["ceilings"].push_back(
        {{"what", what}, {"value", value}, {"unit", unit}, {"datasheet", datasheet}, {"share", value / datasheet}});
    return check.keep();
  };
  Timing copy = NABLA_TRY(time_entry(*session, "copy", 8, check.seconds, check.random));
  NABLA_TRY(add("copy", check.plan["copy_bytes"].get<double>() / copy.seconds / 1e9, "GB/s", check.plan["copy_gbs"]));
  for (const json& p : check.plan["products"]) {
    Timing t = NABLA_TRY(time_entry(*session, p["entry"], 8, check.seconds, check.random));
    NABLA_TRY(add(p["entry"], p["flops"].get<double>() / t.seconds / 1e12, "TFLOP/s",
                  check.plan[p["dtype"] == "f32" ? "f32_tflops" : "tensor_tflops"]));
  }
  return Ok{};
}

Status measure_training(Check& check) {
  for (const json& model : check.plan["training"]) {
    std::string name = model["name"];
    int64_t vocabulary = model["vocabulary"];
    auto session = NABLA_TRY(open(check.folder, name, check.plan["target"]));
    NABLA_TRY(run_once(*session, "init", 1000, check.random));
    int step = NABLA_TRY(session->need_entry("step"));
    const exec::EntryInfo& info = session->entries()[step];
    std::vector<Literal> batch = drawn_inputs(info, vocabulary, check.random), out = poisoned_outputs(info);
    NABLA_TRY(run(*session, step, batch, out));
    double first = out[0].get(0);
    for (int i = 0; i < 10; ++i) NABLA_TRY(run(*session, step, batch, out));
    double last = out[0].get(0);
    bool ok = std::isfinite(first) && last < first;
    check.failures += !ok;
    Timing t = NABLA_TRY(time_entry(*session, "step", vocabulary, 4 * check.seconds, check.random));
    double flops = static_cast<double>(info.flops) / t.seconds;
    check.result["training"].push_back({{"model", name},
                                        {"step_ms", t.seconds * 1e3},
                                        {"tokens_per_second", model["tokens"].get<double>() / t.seconds},
                                        {"tflops", flops / 1e12},
                                        {"utilisation", flops / 1e12 / check.plan["tensor_tflops"].get<double>()},
                                        {"arena_gb", static_cast<double>(session->arena_bytes()) / 1e9},
                                        {"loss", {first, last}},
                                        {"ok", ok}});
    NABLA_TRY(check.keep());
    session.reset();  // the GPU has room for one of these
    Spans spans = NABLA_TRY(traced(check, name, "step", std::min<int64_t>(vocabulary, 1000), {"init"}));
    double all = 0;
    std::vector<std::pair<double, std::string>> kernels;
    for (const auto& [kernel, microseconds] : spans.microseconds) {
      all += microseconds;
      kernels.emplace_back(microseconds, kernel);
    }
    std::sort(kernels.rbegin(), kernels.rend());
    for (const auto& [microseconds, kernel] : kernels)
      check.result["kernels"].push_back(
          {{"model", name}, {"kernel", kernel}, {"us", microseconds}, {"share", microseconds / all}});
    NABLA_TRY(check.keep());
  }
  return Ok{};
}

}  // namespace nabla::gpu_check
