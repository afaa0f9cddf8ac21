// What users wait for and carry around: compiling, loading, the runtime's size.
#include <sys/stat.h>

#include <algorithm>
#include <thread>

#include "bench/bench.h"
#include "cli/driver/compile.h"
#include "codegen/compile_kernels.h"
#include "ir/ops/all_ops.h"
#include "ir/serialize.h"

namespace nabla::bench {
namespace {

// Budgets in bytes after strip: of nabla-run, and of a C program that has the C API and no more.
constexpr double kRunBytes = 2.8e6, kCoreBytes = 1.8e6;

// Seconds of `nablac compile` of what `program` writes, process and all; the kernel cache is in the scratch folder.
Result<Measurement> compile(const Paths& paths, const std::string& program, bool cold, double budget) {
  std::string model = paths.scratch + "/compile.nir", cache = paths.scratch + "/cache";
  NABLA_TRY(output_of(fmt::format("'{}/examples/{}' '{}'", paths.bin, program, model)));
  std::string command =
      fmt::format("NABLA_CACHE='{}' '{}/cli/nablac' compile '{}' -o '{}.nbundle'", cache, paths.bin, model, model);
  std::string forget = fmt::format("rm -rf '{}' && mkdir '{}'", cache, cache);
  double best = 1e9;
  NABLA_TRY(output_of(forget));
  if (!cold) NABLA_TRY(output_of(command));
  for (int i = 0; i < (cold ? 3 : 5); ++i) {
    if (cold) NABLA_TRY(output_of(forget));
    double begin = now();
    NABLA_TRY(output_of(command));
    best = std::min(best, now() - begin);
  }
  return against_budget(best, "s", budget);
}

// By NVRTC on every CPU of this machine, printing and all; no GPU takes part.
Result<Measurement> compile_gpu_kernels(const Paths& paths, size_t kernels) {
  std::string model = paths.scratch + "/gpu.nir";
  NABLA_TRY(output_of(fmt::format("'{}/examples/charlm/charlm' '{}'", paths.bin, model)));
  ir::Module module = NABLA_TRY(ir::read_module(model, ops::all_ops()));
  auto lowered = NABLA_TRY(driver::lower_module(module, {.target = "sm_90a", .library = false}));
  if (lowered.planned.kernels.size() < kernels)
    return error(Code::kInvalidModule, "the language model has {} kernels, not {}", lowered.planned.kernels.size(),
                 kernels);
  lowered.planned.kernels.resize(kernels);
  auto processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    double begin = now();
    NABLA_TRY(codegen::compile_kernels(lowered.planned, lowered.target, {.jobs = processors}));
    best = std::min(best, now() - begin);
  }
  return against_budget(best, "s", 1.2);
}

Result<Measurement> load_to_first_step(const Paths& paths) {
  std::string model = paths.scratch + "/load.nir", bundle = paths.scratch + "/load.nbundle";
  NABLA_TRY(output_of(fmt::format("'{0}/examples/digits/mlp' '{1}' && '{0}/cli/nablac' compile '{1}' -o '{2}'",
                                  paths.bin, model, bundle)));
  double best = 1e9;
  for (int i = 0; i < 9; ++i) {
    double begin = now();
    auto session = NABLA_TRY(exec::Session::open(bundle, {}));
    uint32_t seed[2] = {0, 0};
    const void* inputs[] = {seed};
    NABLA_TRY(session->run(session->find_entry("init"), inputs, {}));
    int step = session->find_entry("step");
    Buffers buffers(session->entries()[step]);
    NABLA_TRY(session->run(step, buffers.in, buffers.out));
    best = std::min(best, now() - begin);
  }
  return against_budget(best * 1e3, "ms", 50);
}

Result<Measurement> stripped_bytes(const Paths& paths, const std::string& program, double budget) {
  std::string stripped = paths.scratch + "/stripped";
  NABLA_TRY(output_of(fmt::format("strip -o '{}' '{}/{}'", stripped, paths.bin, program)));
  struct stat info {};
  if (stat(stripped.c_str(), &info) != 0) return error(Code::kNotFound, "{} is not there", stripped);
  return against_budget(static_cast<double>(info.st_size), "bytes", budget);
}

}  // namespace

std::vector<Bench> product_benches() {
  return {
      {"compile_cnn_cold_s", "nablac compile of the digits CNN, nothing cached",
       [](const Paths& p) { return compile(p, "digits/cnn", true, 6); }},
      {"compile_cnn_cached_s", "the same with every kernel in the cache",
       [](const Paths& p) { return compile(p, "digits/cnn", false, 1); }},
      {"compile_charlm_cold_s", "nablac compile of the language model, nothing cached",
       [](const Paths& p) { return compile(p, "charlm/charlm", true, 10); }},
      {"compile_charlm_cached_s", "the same with every kernel in the cache",
       [](const Paths& p) { return compile(p, "charlm/charlm", false, 1); }},
      {"compile_60_gpu_kernels_s", "60 kernels of the language model for sm_90a by NVRTC, nothing cached",
       [](const Paths& p) { return compile_gpu_kernels(p, 60); }},
      {"load_to_first_step_ms", "open the MLP's bundle, run init and one step", load_to_first_step},
      {"nabla_run_stripped_bytes", "size of nabla-run after strip",
       [](const Paths& p) { return stripped_bytes(p, "cli/nabla-run", kRunBytes); }},
      {"nabla_run_core_bytes", "size of a C program with the C API and no more, after strip",
       [](const Paths& p) { return stripped_bytes(p, "examples/embed/embed", kCoreBytes); }},
  };
}

}  // namespace nabla::bench
