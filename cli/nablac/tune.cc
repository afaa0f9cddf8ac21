// nablac tune: measures which implementation of each matrix product is fastest on this machine.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/driver/compile.h"
#include "cli/driver/tuning.h"
#include "cli/nablac/commands.h"
#include "cli/validators.h"
#include "ir/ops/all_ops.h"
#include "ir/serialize.h"
#include "runtime/format/file.h"
#include "runtime/format/process.h"

namespace nabla::cli {
namespace {

struct TuneArgs {
  std::string input, output = "nabla.tuning", target = "cpu:native";
  int threads = 0;
};

Status run(const TuneArgs& args) {
  NABLA_TRY(format::check_files({{"the module", args.input}}, {{"--output", args.output}}));
  ir::Target target = NABLA_TRY(ir::find_target(args.target));
  ir::Module module = NABLA_TRY(ir::read_module(args.input, ops::all_ops(), ir::Places::kOfFile));
  ir::Module flat = NABLA_TRY(driver::simplify_module(module, target));
  std::string text = NABLA_TRY(driver::tune(flat, ops::all_ops(), target, args.threads, [](const std::string& line) {
    std::printf("%s\n", line.c_str()), std::fflush(stdout);
  }));
  NABLA_TRY(format::write_file(args.output, text));
  std::printf("wrote %s\n", printable(args.output).c_str());
  return Ok{};
}

}  // namespace

void add_tune(CLI::App& app, int& exit_code) {
  auto args = std::make_shared<TuneArgs>();
  CLI::App* command =
      app.add_subcommand("tune", "Measure the matrix products of a module on this machine; writes a tuning file");
  command->add_option("module", args->input, "the module: .nir, .nir.json or .nbl")->required();
  command->add_option("-o,--output", args->output, "the tuning file to write; default: nabla.tuning")
      ->check(file_name());
  command->add_option("--target", args->target, "the target that will be compiled for");
  command->add_option("--threads", args->threads, "threads to measure with; default: all")->check(CLI::Range(1, 1024));
  command->callback([args, &exit_code] { exit_code = report(run(*args)); });
}

}  // namespace nabla::cli
