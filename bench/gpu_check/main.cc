// gpu_check DIR: runs what gpu_check_pack made on this machine's GPU. Values first, then times; a table and a file.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "bench/gpu_check/check.h"
#include "bench/gpu_check/ranks.h"
#include "bench/gpu_check/supervise.h"
#include "runtime/device/cuda_driver.h"

namespace nabla::gpu_check {
namespace {

using nlohmann::json;

struct Options {
  std::string folder, results, only;
  uint64_t seed = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  double seconds = 0.5, within = 540;
  bool values_only = false;
  int64_t child = -1;
};

std::vector<Task> chosen(const json& plan, const Options& o) {
  std::vector<Task> out;
  for (Task& task : tasks_of(plan))
    if ((!o.values_only || task.is_value()) && task.str().find(o.only) != std::string::npos)
      out.push_back(std::move(task));
  return out;
}

// The GPU and its driver, asked by a child so that this process has no context of its own.
json machine_of(const json& plan, const Options& o) {
  json out = {{"part", "machine"}, {"target", plan["target"]}, {"seed", o.seed}};
  std::string text;
  const char* query =
      "nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,power.limit,"
      "temperature.gpu --format=csv,noheader 2> /dev/null";
  if (FILE* in = popen(query, "r"); in != nullptr) {
    char line[512];
    if (std::fgets(line, sizeof line, in) != nullptr) text = line;
    pclose(in);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  out["nvidia_smi"] = text;
  return out;
}

Status identify(json& machine) {
  device::CudaDevice gpu = NABLA_TRY(device::CudaDevice::open());
  machine["gpu"] = gpu.name;
  machine["capability"] = gpu.capability;
  machine["driver_cuda"] = gpu.driver->version;
  machine["nccl"] = nccl_version();
  return Ok{};
}

class Results {
 public:
  explicit Results(const std::string& path) {
    if (!path.empty()) file_ = std::fopen(path.c_str(), "we");
  }
  ~Results() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  bool opened() const { return file_ != nullptr; }
  void line(const json& row) {
    if (file_ == nullptr) return;
    std::fputs((row.dump() + "\n").c_str(), file_);
    std::fflush(file_);
  }

 private:
  FILE* file_ = nullptr;
};

Result<int> run(const Options& o, const char* self) {
  std::ifstream in(o.folder + "/plan.json");
  json plan = json::parse(in, nullptr, false);
  if (plan.is_discarded())
    return error(Code::kNotFound, "{}/plan.json cannot be read: gpu_check_pack DIR makes it", o.folder);
  std::vector<Task> tasks = chosen(plan, o);
  if (tasks.empty()) return error(Code::kBadOption, "--only {}: no task is named so", o.only);
  if (o.child >= 0) {
    Check check(o.folder, plan, o.seconds, o.seed + static_cast<uint64_t>(o.child));
    return serve(check, tasks, static_cast<size_t>(o.child));
  }
  json machine = machine_of(plan, o);
  NABLA_TRY(identify(machine));
  Results results(o.results);
  if (!o.results.empty() && !results.opened()) return error(Code::kWriteFailed, "cannot write {}", o.results);
  results.line(machine);
  std::vector<std::string> command = {self, o.folder, "--seed", std::to_string(o.seed), "--seconds",
                                      std::to_string(o.seconds)};
  if (!o.only.empty()) command.insert(command.end(), {"--only", o.only});
  if (o.values_only) command.push_back("--values-only");
  command.push_back("--child");
  std::vector<json> rows;
  int failures = 0;
  supervise(tasks, command, o.within, [&](const json& row) {
    results.line(row);
    bool ok = row["ok"];
    failures += !ok;
    std::fprintf(stderr, "%3zu/%zu  %s/%s  %.1f s%s\n", rows.size() + 1, tasks.size(), row["part"].get<std::string>().c_str(),
                 row["name"].get<std::string>().c_str(), row.value("seconds", 0.0), ok ? "" : "  FAILED");
    rows.push_back(row);
  });
  results.line({{"part", "end"}, {"failures", failures}});
  std::fputs(table(machine, rows).c_str(), stdout);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nabla::gpu_check

int main(int argc, char** argv) {
  nabla::gpu_check::Options o;
  CLI::App app("Checks this machine's GPU: values of every kind of kernel, launches, ceilings, training steps.",
               "gpu_check");
  app.add_option("DIR", o.folder, "what gpu_check_pack wrote")->required();
  app.add_option("--results", o.results, "a file for everything that is found, a line of JSON for each task as it ends");
  app.add_option("--only", o.only, "tasks whose PART/NAME contains this text");
  app.add_option("--seed", o.seed, "of the random inputs; by default the time");
  app.add_option("--seconds", o.seconds, "for each timing")->check(CLI::Range(0.0, 60.0))->capture_default_str();
  app.add_option("--within", o.within, "seconds; tasks that have not begun by then are not run")->capture_default_str();
  app.add_flag("--values-only", o.values_only, "no times");
  app.add_option("--child", o.child, "runs tasks from this one on, a line each on stdout; what gpu_check starts")->group("");
  CLI11_PARSE(app, argc, argv);
  nabla::Result<int> code = nabla::gpu_check::run(o, "/proc/self/exe");
  if (code.ok()) return *code;
  std::fputs((nabla::to_string(code.errors()) + "\n").c_str(), stderr);
  return 1;
}
