#include "bench/gpu_check/check.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "bench/gpu_check/ranks.h"
#include "bench/gpu_check/session.h"
#include "ir/gpus.h"
#include "runtime/exec/gemm_records.h"

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

Result<json> values(Check& check, const json& kind) {
  std::string name = kind["entry"], bundle = kind["bundle"];
  exec::Session& gpu = *NABLA_TRY(check.session(bundle));
  exec::Session& cpu = *NABLA_TRY(check.cpu_session(kind["cpu"]));
  int on_gpu = NABLA_TRY(gpu.need_entry(name)), on_cpu = NABLA_TRY(cpu.need_entry(name));
  const exec::EntryInfo& info = gpu.entries()[on_gpu];
  double worst = 0;
  for (const json& before : kind.value("before", json::array())) {
    std::mt19937_64 same = check.random;
    NABLA_TRY(run_once(gpu, before, kind["integers"], check.random));
    NABLA_TRY(run_once(cpu, before, kind["integers"], same));
  }
  // Issued the first time, replayed as a graph from the second on, with other inputs each time.
  for (int round = 0; round < 3; ++round) {
    std::vector<Literal> inputs = drawn_inputs(info, kind["integers"], check.random);
    std::vector<Literal> got = poisoned_outputs(info), want = poisoned_outputs(info);
    NABLA_TRY(run(gpu, on_gpu, inputs, got));
    NABLA_TRY(run(cpu, on_cpu, inputs, want));
    for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, distance(got[i], want[i]));
  }
  return json{{"error", std::isfinite(worst) ? json(worst) : json("not a number")},
              {"tolerance", kind["tolerance"]},
              {"ok", worst <= kind["tolerance"].get<double>()}};
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

// Of multiprocessors and memory now, in MHz, with the power that the GPU takes; empty without nvidia-smi.
std::string clocks() { return nvidia_smi("clocks.sm,clocks.mem,power.draw"); }

Result<json> launches(Check& check) {
  Spans spans = NABLA_TRY(traced(check, "launches", "chain", 8, {"fill_link"}));
  exec::Session& session = *NABLA_TRY(check.session("launches"));
  NABLA_TRY(run_once(session, "fill_link", 8, check.random));
  Timing one = NABLA_TRY(time_entry(session, "one", 8, check.seconds, check.random));
  Timing chain = NABLA_TRY(time_entry(session, "chain", 8, check.seconds, check.random));
  double links = std::max(1, spans.count - 1), in_trace = 0;
  for (const auto& [name, microseconds] : spans.microseconds) in_trace += microseconds;
  return json{{"ok", true},
              {"run_of_one_kernel_us", one.seconds * 1e6},
              {"kernel_in_a_graph_us", (chain.seconds - one.seconds) * 1e6 / links},
              {"kernel_by_itself_us", in_trace / std::max(1, spans.count)},
              {"kernels", spans.count}};
}

Result<json> ceilings(Check& check, const json& plan) {
  exec::Session& session = *NABLA_TRY(check.session(plan["bundle"]));
  NABLA_TRY(run_once(session, "fill", 8, check.random));
  Timing t = NABLA_TRY(time_entry(session, plan["entry"], 8, check.seconds, check.random));
  double value = plan["work"].get<double>() / t.seconds, sheet = sheet_of(check.gpu, plan["of"], plan["datasheet"]);
  return json{{"ok", true},        {"value", value},         {"unit", plan["unit"]},  {"datasheet", sheet},
              {"share", value / sheet}, {"runs", t.runs}, {"launches", plan["launches"]},
              {"algorithms", with_records(plan["algorithms"], check.gpu, exec::read_gemm_records(exec::gemm_records_file()))},
              {"clocks", clocks()}};
}

Result<json> training(Check& check, const json& model) {
  int64_t vocabulary = model["vocabulary"];
  exec::Session& session = *NABLA_TRY(check.session(model["bundle"]));
  const std::vector<double> losses = NABLA_TRY(losses_of(session, vocabulary, kSteps, model["seed"]));
  double first = losses.front(), last = losses.back();
  // The plan stores the losses that a CPU computed for the same steps.
  double worst = model.contains("losses") ? largest_error(losses, model["losses"].get<std::vector<double>>()) : 0;
  Timing t = NABLA_TRY(time_entry(session, "step", vocabulary, 4 * check.seconds, check.random));
  double flops = model["flops"].get<double>() / t.seconds;
  return json{{"ok", std::isfinite(first) && last < first && worst <= model.value("tolerance", 0.0)},
              {"error", std::isfinite(worst) ? json(worst) : json("not a number")},
              {"step_ms", t.seconds * 1e3},
              {"tokens_per_second", model["tokens"].get<double>() / t.seconds},
              {"tflops", flops / 1e12},
              {"utilisation", flops / 1e12 / sheet_of(check.gpu, "tensor_tflops", check.plan["tensor_tflops"])},
              {"arena_gb", static_cast<double>(session.arena_bytes()) / 1e9},
              {"runs", t.runs},
              {"clocks", clocks()},
              {"loss", {first, last}}};
}

Result<json> kernels(Check& check, const json& model) {
  int64_t vocabulary = model["vocabulary"];
  Spans spans = NABLA_TRY(traced(check, model["bundle"], "step", std::min<int64_t>(vocabulary, 1000), {"init"}));
  double all = 0;
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [kernel, microseconds] : spans.microseconds) {
    all += microseconds;
    sorted.emplace_back(microseconds, kernel);
  }
  std::sort(sorted.rbegin(), sorted.rend());
  json rows = json::array();
  for (const auto& [microseconds, kernel] : sorted)
    rows.push_back({{"kernel", kernel}, {"us", microseconds}, {"share", microseconds / all}});
  return json{{"ok", true}, {"step_us", all}, {"launches", spans.count}, {"kernels", std::move(rows)}};
}

}  // namespace

json with_records(const json& algorithms, const std::string& gpu, const std::vector<GemmRecord>& records) {
  json out = json::array();
  for (std::string what : algorithms) {
    const size_t times = what.find(" x ");
    const std::string problem = (times == what.npos ? what : what.substr(times + 3)) + " ";
    for (const GemmRecord& r : records)
      if (r.gpu == gpu && r.problem.starts_with(problem)) what += " | " + r.str();
    out.push_back(what);
  }
  return out;
}

double sheet_of(const std::string& gpu, const std::string& what, double otherwise) {
  const ir::GpuModel* model = ir::find_gpu(gpu);
  if (model == nullptr) return otherwise;
  return what == "copy_gbs" ? model->memory_gbs : what == "f32_tflops" ? model->f32_tflops : model->tensor_tflops;
}

std::vector<Task> tasks_of(const json& plan) {
  std::vector<Task> out;
  // What hangs must not take the time of the others. An emulator, for which programs are small, is slower.
  const double limit = plan.value("small", false) ? 60 : 10;
  for (const json& kind : plan["values"]) {
    bool library = kind["bundle"].get<std::string>().find("library") != std::string::npos;
    out.push_back({library ? "libraries" : "values", kind["name"], kind, limit});
  }
  for (const json& job : plan["ranks"]) out.push_back({"ranks", job["name"], job, 60});
  out.push_back({"launches", "chain", {}, limit});
  for (const json& one : plan["ceilings"]) out.push_back({"ceilings", one["name"], one, limit});
  for (const json& model : plan["training"]) out.push_back({"training", model["name"], model, 120});
  for (const json& model : plan["training"]) out.push_back({"kernels", model["name"], model, 120});
  return out;
}

Result<exec::Session*> Check::kept(Kept& one, const std::string& bundle, const std::string& target) {
  if (one.bundle != bundle) {
    one = {};
    one.session = NABLA_TRY(open(folder, bundle, target));
    one.bundle = bundle;
  }
  return one.session.get();
}
Result<exec::Session*> Check::session(const std::string& bundle) { return kept(gpu_, bundle, plan["target"]); }
Result<exec::Session*> Check::cpu_session(const std::string& bundle) { return kept(cpu_, bundle, "cpu:x86-64-v3"); }

Result<json> run_task(Check& check, const Task& task) {
  if (task.part == "values" || task.part == "libraries") return values(check, task.plan);
  if (task.part == "ranks") return ranks(check, task.plan, task.limit_s - 10);
  if (task.part == "launches") return launches(check);
  if (task.part == "ceilings") return ceilings(check, task.plan);
  if (task.part == "training") return training(check, task.plan);
  return kernels(check, task.plan);
}

}  // namespace nabla::gpu_check
