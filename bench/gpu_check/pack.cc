// Compiles what gpu_check runs: gpu_check_pack DIR [--target sm_90a] [--small]. No GPU is needed.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "bench/gpu_check/check.h"
#include "bench/gpu_check/kinds.h"
#include "bench/gpu_check/session.h"
#include "cli/driver/compile.h"
#include "cli/exit_codes.h"
#include "cli/validators.h"
#include "examples/charlm/charlm.h"
#include "examples/gpt2/gpt2.h"
#include "ir/gpus.h"
#include "runtime/format/file.h"
#include "runtime/format/safetensors.h"

namespace nabla::gpu_check {
namespace {

// One GPU's machine code, "sm_90a" or "sm_90a:H200": E0901 for any other target.
Result<ir::Target> gpu(const std::string& name) {
  std::vector<std::string> gpus;
  for (const std::string& known : ir::target_names())
    if (known.starts_with("sm_")) gpus.push_back(known);
  if (std::find(gpus.begin(), gpus.end(), name.substr(0, name.find(':'))) != gpus.end()) return ir::find_target(name);
  const std::string list = fmt::format("the GPUs are {}", fmt::join(gpus, ", "));
  return option_error(list, "--target: `{}` is none, or more than one, of the GPUs{}", name, did_you_mean(name, gpus));
}

class Packer {
 public:
  // `given` is the target's name with the GPU that the compiler plans for, if there is one.
  Packer(std::string folder, const ir::Target& target, std::string given, bool small, const std::string& commit)
      : folder_(std::move(folder)), target_(std::move(given)), scale_{small} {
    if (const ir::GpuModel* model = ir::predicted_gpu(target)) gpu_ = model->name;
    plan_ = {{"target", target.name},
             {"gpus", target.cuda.gpus},
             {"copy_gbs", target.cuda.copy_gbs},
             {"f32_tflops", target.cuda.f32_tflops},
             {"tensor_tflops", target.cuda.tensor_tflops},
             {"small", scale_.small}};
    if (!commit.empty()) plan_["commit"] = commit;
  }

  Status run() {
    const std::string target = plan_["target"];
    NABLA_TRY(format::write_file(folder_ + "/library.tuning",
                                 "nabla-tuning 3\ntarget " + target + "\ngemm = cublaslt\nconvolution = cudnn\n"));
    NABLA_TRY(kinds());
    NABLA_TRY(speed());
    NABLA_TRY(models());
    NABLA_TRY(ranks());
    return format::write_file(folder_ + "/plan.json", plan_.dump(1) + "\n");
  }

 private:
  Status kinds() {
    NABLA_TRY(values("kinds", add_kinds, {.library = false}));
    NABLA_TRY(values("tf32", add_tf32_kinds, {.library = false, .tf32 = true}));
    return values("library", add_library_kinds, by_library());
  }
  // Everything that a library can do is the library's.
  driver::CompileOptions by_library() const { return {.tuning_file = folder_ + "/library.tuning"}; }

  Status values(const std::string& name, std::vector<Kind> (*add)(Program&, const Scale&),
                driver::CompileOptions options) {
    Program program;
    for (const Kind& k : add(program, scale_))
      plan_["values"].push_back({{"bundle", name},
                                 {"cpu", name + "_cpu"},
                                 {"entry", k.name},
                                 {"name", k.name},
                                 {"tolerance", k.tolerance},
                                 {"integers", k.integers}});
    NABLA_TRY(compile(program, name, target_, std::move(options)));
    // What it is compared with needs no library: the machine with the GPU may have none.
    return compile(program, name + "_cpu", "cpu:x86-64-v3");
  }

  Status speed() {
    Program launches, all, products;
    add_launches(launches, scale_);
    NABLA_TRY(compile(launches, "launches", target_));
    const std::vector<Speed> every = add_speeds(all, scale_), of_products = add_product_speeds(products, scale_);
    nlohmann::json report;
    NABLA_TRY(compile(all, "speed", target_, {.library = false}, &report));
    ceilings("generated", "speed", every, report);
    NABLA_TRY(compile(products, "speed_library", target_, by_library(), &report));
    ceilings("library", "speed_library", of_products, report);
    return Ok{};
  }
  void ceilings(const std::string& by, const std::string& bundle, const std::vector<Speed>& speeds, const nlohmann::json& report) {
    for (const Speed& s : speeds) {
      bool bytes = s.unit == Unit::kBytes;
      const char* sheet = bytes ? "copy_gbs" : s.unit == Unit::kFlops ? "f32_tflops" : "tensor_tflops";
      plan_["ceilings"].push_back({{"name", by + "_" + s.entry},
                                   {"bundle", bundle},
                                   {"entry", s.entry},
                                   {"work", s.work / (bytes ? 1e9 : 1e12)},
                                   {"unit", bytes ? "GB/s" : "TFLOP/s"},
                                   {"of", sheet},
                                   {"datasheet", sheet_of(gpu_, sheet, plan_[sheet])},
                                   {"launches", s.launches},
                                   {"algorithms", algorithms_of(s.entry, report)}});
    }
  }
  // What a run of an entry launches: of each kernel how its grids work, of each library call the problem.
  static nlohmann::json algorithms_of(const std::string& name, const nlohmann::json& report) {
    nlohmann::json out = nlohmann::json::array(), runs;
    for (const nlohmann::json& e : report["entries"])
      if (e["name"] == name) runs = e["runs"];
    for (const auto& [kernel, count] : runs["kernels"].items())
      for (const nlohmann::json& k : report["kernels"]) {
        if (k["name"] != kernel) continue;
        for (const nlohmann::json& schedule : k["schedule"])
          out.push_back(fmt::format("{} x {}: {}", count.get<int64_t>(), kernel, schedule.get<std::string>()));
      }
    for (const nlohmann::json& call : runs["library_calls"]) {
      const std::string problem = report["library_calls"][call[0].get<size_t>()]["problem"];
      out.push_back(fmt::format("{} x {}", call[1].get<int64_t>(), problem));
    }
    return out;
  }

  gpt2::Options sizes() const {
    gpt2::Options o;
    if (scale_.small) o.layers = 1, o.width = 64, o.heads = 2, o.vocabulary = 61, o.context = 16, o.batch = 2;
    return o;
  }
  Status models() {
    const gpt2::Options o = sizes();
    NABLA_TRY(layer(o));
    if (!scale_.small) {
      NABLA_TRY(training("charlm", charlm::make_program({}), charlm::kBatch * charlm::kContext, charlm::kVocabulary, {.library = false}));
      NABLA_TRY(curve("charlm", charlm::make_program({}), 1e-3));
      NABLA_TRY(training("gpt2_library", gpt2::make_program(o), o.batch * o.context, o.vocabulary, {}));
    }
    NABLA_TRY(training("gpt2", gpt2::make_program(o), o.batch * o.context, o.vocabulary, {.library = false}));
    if (scale_.small) return curve("gpt2", gpt2::make_program(o), 2e-2);
    // The same model on few tokens: a CPU needs minutes for a step of 8 x 1,024.
    gpt2::Options few = o;
    few.batch = 1, few.context = 128;
    NABLA_TRY(training("gpt2_few_tokens", gpt2::make_program(few), few.batch * few.context, few.vocabulary, {.library = false}));
    return curve("gpt2_few_tokens", gpt2::make_program(few), 2e-2);
  }
  // Model FLOPs utilisation counts the FLOPs of the model only, and not those that kernels compute again.
  Status training(const std::string& name, const Program& program, int64_t tokens, int64_t vocabulary, driver::CompileOptions options) {
    nlohmann::json report;
    NABLA_TRY(compile(program, name, target_, std::move(options), &report));
    for (const nlohmann::json& entry : report["entries"])
      if (entry["name"] == "step")
        plan_["training"].push_back({{"name", name}, {"bundle", name}, {"tokens", tokens}, {"vocabulary", vocabulary},
                                     {"seed", 7}, {"flops", entry.value("model_flops", entry["flops"])}});
    return Ok{};
  }
  // Trains on this CPU and stores the losses in the plan, for the training of this name.
  Status curve(const std::string& name, const Program& program, double tolerance) {
    NABLA_TRY(compile(program, name + "_cpu", "cpu:x86-64-v3"));
    auto session = NABLA_TRY(open(folder_, name + "_cpu", "cpu:x86-64-v3"));
    for (nlohmann::json& model : plan_["training"])
      if (model["name"] == name) {
        model["losses"] = NABLA_TRY(losses_of(*session, model["vocabulary"], kSteps, model["seed"]));
        model["tolerance"] = tolerance;
      }
    return Ok{};
  }
  // One layer of GPT-2: its loss, and with the norm of its gradients the whole way back, before and after an update.
  Status layer(gpt2::Options o) {
    o.layers = 1, o.vocabulary = scale_.of(1024, 61), o.context = scale_.of(128, 16), o.batch = 2;
    Program program = gpt2::make_program(o);
    for (const char* bundle : {"layer", "layer_library"}) {
      plan_["values"].push_back({{"bundle", bundle},
                                 {"cpu", "layer_cpu"},
                                 {"entry", "step"},
                                 {"name", std::string(bundle) + "_of_gpt2"},
                                 {"before", {"init"}},
                                 {"tolerance", 2e-2},
                                 {"integers", o.vocabulary}});
    }
    NABLA_TRY(compile(program, "layer", target_));
    NABLA_TRY(compile(program, "layer_library", target_, by_library()));
    return compile(program, "layer_cpu", "cpu:x86-64-v3");
  }
  // The suite of engines, and training on several ranks, by nabla-run.
  Status ranks() {
    auto suite = [&](const char* name, int count, const std::vector<int>& axes) {
      plan_["ranks"].push_back({{"name", name}, {"ranks", count}, {"suite", axes}});
    };
    suite("suite_2", 2, {2});
    if (!scale_.small) suite("suite_3", 3, {3}), suite("suite_4", 4, {4});
    suite("suite_2x2", 4, {2, 2});
    gpt2::Options o = sizes();
    o.batch = 4;
    const Program program = scale_.small ? gpt2::make_program(o) : charlm::make_program({});
    const int64_t samples = 4 * (scale_.small ? o.batch : charlm::kBatch), length = 1 + (scale_.small ? o.context : charlm::kContext);
    Literal tokens(scale_.small ? DType::kI32 : DType::kU8, {samples, length});
    for (int64_t i = 0; i < tokens.size(); ++i) tokens.set_i(i, i * i % 61);
    NABLA_TRY(format::write_file(folder_ + "/ranks.safetensors", format::safetensors_bytes({{"tokens", tokens}})));
    for (auto [name, count, zero] : {std::tuple{"dp", 2, 0}, {"zero3", 4, 3}}) {
      std::string bundle = fmt::format("train_{}_{}", name, count);
      driver::CompileOptions options{.library = false, .mesh = {fmt::format("dp={}", count)}};
      options.pass_options.apply_strategy.zero = zero, options.pass_options.apply_strategy.data_axes = {"dp"};
      plan_["ranks"].push_back({{"name", bundle}, {"ranks", count}, {"bundle", bundle}, {"cpu", bundle + "_cpu"}, {"steps", 6},
                                {"tolerance", scale_.small ? 2e-2 : 1e-4}});
      if (count == 2)
        plan_["ranks"].push_back({{"name", "killed_rank"}, {"ranks", count}, {"bundle", bundle}, {"steps", 1000000}, {"killed", 1}});
      NABLA_TRY(compile(program, bundle, target_, options));
      NABLA_TRY(compile(program, bundle + "_cpu", "cpu:x86-64-v3", options));
    }
    return Ok{};
  }

  Status compile(const Program& program, const std::string& name, const std::string& targets,
                 driver::CompileOptions options = {.library = false}, nlohmann::json* report = nullptr) {
    options.target = targets;
    auto start = std::chrono::steady_clock::now();
    driver::CompiledBundle bundle = NABLA_TRY(driver::compile(program.module(), options));
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%-12s %5zu kernels  %7.1f MB  %6.1f s\n", name.c_str(), bundle.kernels,
                static_cast<double>(bundle.bytes.size()) / 1e6, took.count());
    if (report != nullptr) *report = nlohmann::json::parse(bundle.report);
    return format::write_file(folder_ + "/" + name + ".nbundle", bundle.bytes);
  }

  std::string folder_, target_;
  std::string gpu_;  // whose data sheet counts if the name of the machine's GPU is not known
  Scale scale_;
  nlohmann::json plan_;
};

Status pack(const std::vector<std::string>& args) {
  std::string folder, target_name = "sm_90a", commit;
  bool small = false;
  CLI::App app("Compiles the programs that gpu_check runs on a GPU.", "gpu_check_pack");
  app.add_option("DIR", folder, "where they go")->required()->check(cli::file_name());
  app.add_option("--target", target_name, "the GPU")->capture_default_str();
  app.add_option("--commit", commit, "of the sources, for the results");
  app.add_flag("--small", small, "sizes for an emulator: nothing that is measured means anything");
  if (std::string said = NABLA_TRY(cli::parse(app, args)); !said.empty()) {
    std::fputs(said.c_str(), stdout);
    return Ok{};
  }
  ir::Target target = NABLA_TRY(gpu(target_name));
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return error(Code::kWriteFailed, "the folder `{}` cannot be made: {}", folder, problem.message());
  return Packer(folder, target, target_name, small, commit).run();
}

}  // namespace
}  // namespace nabla::gpu_check

int main(int argc, char** argv) {
  try {
    nabla::Status done = nabla::gpu_check::pack(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
    if (done.ok()) return 0;
    std::fputs(nabla::to_string(done.errors()).c_str(), stderr);
    return nabla::cli::exit_code(done.errors().front().code, false);
  } catch (const std::exception& e) {
    std::fputs((std::string(e.what()) + "\n").c_str(), stderr);
    return 1;
  }
}
