// gpu_check DIR: runs what gpu_check_pack made on this machine's GPU. Values first, then times; a table and a file.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "bench/gpu_check/check.h"
#include "bench/gpu_check/plan.h"
#include "bench/gpu_check/ranks.h"
#include "bench/gpu_check/session.h"
#include "bench/gpu_check/supervise.h"
#include "cli/exit_codes.h"
#include "cli/validators.h"
#include "ir/gpus.h"
#include "runtime/base/text.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/format/file.h"

namespace nabla::gpu_check {
namespace {

using nlohmann::json;

struct Options {
  std::string folder, results, only;
  uint64_t seed = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  double seconds = 0.5, within = 420;
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
  if (plan.contains("commit")) out["commit"] = plan["commit"];
  out["nvidia_smi"] = nvidia_smi("name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,power.limit,temperature.gpu");
  return out;
}

Status identify(json& machine, const Options& o) {
  Result<device::CudaDevice> gpu = device::CudaDevice::open();
  if (!gpu.ok()) {
    Diagnostic d = std::move(gpu.errors()[0]);
    d.message = "this machine's GPU cannot be checked: " + d.message;
    d.help = fmt::format("a check needs an NVIDIA GPU and its driver, and else only what {} holds: copy that folder to a machine that has "
                         "them, and start {}/run there", o.folder, o.folder);
    return d;
  }
  machine["gpu"] = gpu->name;
  if (const ir::GpuModel* model = ir::find_gpu(gpu->name)) machine["datasheet_of"] = model->name;
  machine["capability"] = gpu->capability;
  machine["driver_cuda"] = gpu->driver->version;
  machine["nccl"] = nccl_version();
  return Ok{};
}

class Results {
 public:
  explicit Results(const std::string& path) : path_(path) {
    if (path.empty()) return;
    file_ = std::fopen(path.c_str(), "we");
    if (file_ == nullptr) problem_ = errno;
  }
  ~Results() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  // Of the file and all lines so far.
  Status written() const {
    if (problem_ == 0) return Ok{};
    return format::write_failure(path_, problem_);
  }
  void line(const json& row) {
    if (file_ == nullptr) return;
    if (std::fputs((row.dump() + "\n").c_str(), file_) < 0 || std::fflush(file_) != 0) problem_ = errno;
  }

 private:
  std::string path_;
  FILE* file_ = nullptr;
  int problem_ = 0;
};

Result<int> run(const Options& o, const char* self) {
  json plan = NABLA_TRY(read_plan(o.folder));
  std::vector<Task> tasks = chosen(plan, o);
  if (tasks.empty())
    return option_error("tasks are PART/NAME; parts are values, libraries, ranks, launches, ceilings, training, kernels",
                        "--only {}: no task{} is named so", o.only, o.values_only ? " of --values-only" : "");
  if (o.child >= 0) {
    Check check(o.folder, plan, o.seconds, o.seed + static_cast<uint64_t>(o.child));
    if (Result<device::CudaDevice> gpu = device::CudaDevice::open(); gpu.ok()) check.gpu = gpu->name;
    return serve(check, tasks, static_cast<size_t>(o.child));
  }
  json machine = machine_of(plan, o);
  NABLA_TRY(identify(machine, o));
  Results results(o.results);
  NABLA_TRY(results.written());
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
    std::string name = printable(row["part"].get<std::string>() + "/" + row["name"].get<std::string>());
    std::fprintf(stderr, "%3zu/%zu  %s  %.1f s%s\n", rows.size() + 1, tasks.size(), name.c_str(), row.value("seconds", 0.0),
                 ok ? "" : "  FAILED");
    rows.push_back(row);
  });
  results.line({{"part", "end"}, {"failures", failures}});
  std::fputs(printable(table(machine, rows), "\n").c_str(), stdout);
  NABLA_TRY(results.written());
  return failures == 0 ? 0 : 1;
}

Result<int> check(const std::vector<std::string>& args) {
  Options o;
  CLI::App app("Checks this machine's GPU: values of every kind of kernel, launches, ceilings, training steps.", "gpu_check");
  app.add_option("DIR", o.folder, "what gpu_check_pack wrote")->required()->check(cli::file_name());
  app.add_option("--results", o.results, "a file for everything that is found, a line of JSON for each task as it ends")
      ->check(cli::file_name());
  app.add_option("--only", o.only, "tasks whose PART/NAME contains this text");
  app.add_option("--seed", o.seed, "of the random inputs; by default the time")
      ->check(cli::whole(0, UINT64_MAX, "a whole number below 2^64"));
  app.add_option("--seconds", o.seconds, "for each timing")->check(cli::seconds(0, 60))->capture_default_str();
  app.add_option("--within", o.within, "seconds; tasks that have not begun by then are not run")
      ->check(cli::seconds(0, 86400))
      ->capture_default_str();
  app.add_flag("--values-only", o.values_only, "no times");
  app.add_option("--child", o.child, "runs tasks from this one on, a line each on stdout; what gpu_check starts")
      ->check(cli::whole(0, INT64_MAX, "a whole number"))
      ->group("");
  std::string said = NABLA_TRY(cli::parse(app, args));
  if (said.empty()) return run(o, "/proc/self/exe");
  std::fputs(said.c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace nabla::gpu_check

int main(int argc, char** argv) {
  nabla::Result<int> code = nabla::gpu_check::check(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  if (code.ok()) return *code;
  std::fputs(nabla::to_string(code.errors()).c_str(), stderr);
  return nabla::cli::exit_code(code.errors().front().code, false);
}
