// gpu_check DIR: runs what gpu_check_pack made on this machine's GPU. Values first, then times; a table and a file.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "bench/gpu_check/check.h"
#include "runtime/device/cuda_driver.h"

namespace nabla::gpu_check {
namespace {

struct Options {
  std::string folder, results;
  uint64_t seed = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  double seconds = 0.5;
  bool values_only = false;
};

Status run(Check& check, const Options& o) {
  std::ifstream in(o.folder + "/plan.json");
  check.plan = nlohmann::json::parse(in, nullptr, false);
  if (check.plan.is_discarded())
    return error(Code::kNotFound, "{}/plan.json cannot be read: gpu_check_pack DIR makes it", o.folder);
  device::CudaDevice gpu = NABLA_TRY(device::CudaDevice::open());
  check.folder = o.folder;
  check.seconds = o.seconds;
  check.results = o.results;
  check.random.seed(o.seed);
  check.result = {
      {"gpu", gpu.name}, {"capability", gpu.capability}, {"target", check.plan["target"]}, {"seed", o.seed}};
  NABLA_TRY(check_values(check));
  if (!o.values_only) {
    NABLA_TRY(measure_launches(check));
    NABLA_TRY(measure_ceilings(check));
    NABLA_TRY(measure_training(check));
  }
  NABLA_TRY(check.keep(true));
  std::fputs(table(check.result).c_str(), stdout);
  return Ok{};
}

}  // namespace
}  // namespace nabla::gpu_check

int main(int argc, char** argv) {
  nabla::gpu_check::Options o;
  CLI::App app("Checks this machine's GPU: values of every kind of kernel, launches, ceilings, training steps.",
               "gpu_check");
  app.add_option("DIR", o.folder, "what gpu_check_pack wrote")->required();
  app.add_option("--results", o.results, "a file for everything that was found, JSON");
  app.add_option("--seed", o.seed, "of the random inputs; by default the time");
  app.add_option("--seconds", o.seconds, "for each timing")->check(CLI::Range(0.0, 60.0))->capture_default_str();
  app.add_flag("--values-only", o.values_only, "no times");
  CLI11_PARSE(app, argc, argv);
  nabla::gpu_check::Check check;
  nabla::Status done = nabla::gpu_check::run(check, o);
  if (!done.ok()) {
    std::fputs((nabla::to_string(done.errors()) + "\n").c_str(), stderr);
    return 1;
  }
  return check.failures == 0 ? 0 : 1;
}
