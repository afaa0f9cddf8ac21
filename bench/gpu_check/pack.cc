// Compiles what gpu_check runs: gpu_check_pack DIR [--target sm_90a] [--small]. No GPU is needed.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/gpu_check/kinds.h"
#include "cli/driver/compile.h"
#include "examples/charlm/charlm.h"
#include "examples/gpt2/gpt2.h"
#include "runtime/format/file.h"

namespace nabla::gpu_check {
namespace {

class Packer {
 public:
  Packer(std::string folder, std::string target, bool small)
      : folder_(std::move(folder)), target_(std::move(target)), scale_{small} {}

  Status run() {
    ir::Target target = NABLA_TRY(ir::find_target(target_));
    if (!target.is_cuda() || target.cuda.ptx)
      return error(Code::kBadOption, "--target {}: expected a GPU such as sm_90a", target_);
    plan_ = {{"target", target.name},
             {"gpus", target.cuda.gpus},
             {"copy_gbs", target.cuda.copy_gbs},
             {"f32_tflops", target.cuda.f32_tflops},
             {"tensor_tflops", target.cuda.tensor_tflops},
             {"small", scale_.small}};
    NABLA_TRY(kinds());
    NABLA_TRY(speed());
    NABLA_TRY(models());
    return format::write_file(folder_ + "/plan.json", plan_.dump(1) + "\n");
  }

 private:
  Status kinds() {
    NABLA_TRY(values("kinds", add_kinds, {.library = false}));
    std::string tuning = folder_ + "/library.tuning";
    NABLA_TRY(
        format::write_file(tuning, "nabla-tuning 2\ntarget " + target_ + "\ngemm = cublaslt\nconvolution = cudnn\n"));
    return values("library", add_library_kinds, {.tuning_file = tuning});
  }
  Status values(const std::string& name, std::vector<Kind> (*add)(Program&, const Scale&),
                driver::CompileOptions options) {
    Program program;
    for (const Kind& k : add(program, scale_))
      plan_["values"].push_back(
          {{"bundle", name}, {"entry", k.name}, {"tolerance", k.tolerance}, {"integers", k.integers}});
    NABLA_TRY(compile(program, name, target_, std::move(options)));
    // What it is compared with needs no library: the machine with the GPU may have none.
    return compile(program, name + "_cpu", "cpu:x86-64-v3");
  }
  Status speed() {
    Program program;
    Speed s = add_speed(program, scale_);
    plan_["copy_bytes"] = s.copy_bytes;
    for (const Product& p : s.products)
      plan_["products"].push_back({{"entry", p.entry}, {"dtype", std::string(name_of(p.dtype))}, {"flops", p.flops}});
    return compile(program, "speed", target_);
  }
  Status models() {
    auto training = [&](const char* name, int64_t tokens, int64_t vocabulary) {
      plan_["training"].push_back({{"name", name}, {"tokens", tokens}, {"vocabulary", vocabulary}});
    };
    if (!scale_.small) {
      training("charlm", charlm::kBatch * charlm::kContext, charlm::kVocabulary);
      NABLA_TRY(compile(charlm::make_program({}), "charlm", target_));
    }
    gpt2::Options o;
    if (scale_.small) o.layers = 1, o.width = 64, o.heads = 2, o.vocabulary = 61, o.context = 16, o.batch = 2;
    training("gpt2", o.batch * o.context, o.vocabulary);
    return compile(gpt2::make_program(o), "gpt2", target_);
  }
  Status compile(const Program& program, const std::string& name, const std::string& targets,
                 driver::CompileOptions options = {.library = false}) {
    options.target = targets;
    auto start = std::chrono::steady_clock::now();
    driver::CompiledBundle bundle = NABLA_TRY(driver::compile(program.module(), options));
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%-12s %5zu kernels  %7.1f MB  %6.1f s\n", name.c_str(), bundle.kernels,
                static_cast<double>(bundle.bytes.size()) / 1e6, took.count());
    return format::write_file(folder_ + "/" + name + ".nbundle", bundle.bytes);
  }

  std::string folder_, target_;
  Scale scale_;
  nlohmann::json plan_;
};

}  // namespace
}  // namespace nabla::gpu_check

int main(int argc, char** argv) {
  std::string folder, target = "sm_90a";
  bool small = false;
  CLI::App app("Compiles the programs that gpu_check runs on a GPU.", "gpu_check_pack");
  app.add_option("DIR", folder, "where they go")->required();
  app.add_option("--target", target, "the GPU")->capture_default_str();
  app.add_flag("--small", small, "sizes for an emulator: nothing that is measured means anything");
  CLI11_PARSE(app, argc, argv);
  try {
    std::filesystem::create_directories(folder);
    nabla::Status done = nabla::gpu_check::Packer(folder, target, small).run();
    if (done.ok()) return 0;
    std::fputs((nabla::to_string(done.errors()) + "\n").c_str(), stderr);
  } catch (const std::exception& e) {
    std::fputs((std::string(e.what()) + "\n").c_str(), stderr);
  }
  return 1;
}
