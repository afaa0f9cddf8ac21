// nablac tune: measures which implementation of each matrix product is fastest on this machine, and how fast it is, or takes over
// what the runtime measured on a GPU.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>

#include "cli/driver/compile.h"
#include "cli/driver/report_text.h"
#include "cli/driver/tuning.h"
#include "cli/nablac/commands.h"
#include "cli/validators.h"
#include "ir/ops/all_ops.h"
#include "ir/serialize.h"
#include "runtime/base/option_error.h"
#include "runtime/base/text.h"
#include "runtime/format/file.h"
#include "runtime/format/process.h"

namespace nabla::cli {
namespace {

struct TuneArgs {
  std::string input, records, output = "nabla.tuning", target = "cpu";
  int threads = 0;
};

/// What the output holds already; a new file where there is none.
Result<std::string> present(const std::string& path) {
  if (!std::filesystem::exists(path)) return driver::empty_tuning();
  (void)NABLA_TRY(driver::read_tuning(path));
  auto file = NABLA_TRY(format::FileBytes::map(path));
  return std::string(format::as_text(file->bytes()));
}

/// The records of a file that the runtime wrote.
Result<std::vector<GemmRecord>> read_records(const std::string& path) {
  auto file = NABLA_TRY(format::FileBytes::map(path));
  std::istringstream lines{std::string(format::as_text(file->bytes()))};
  std::vector<GemmRecord> out;
  for (std::string line; std::getline(lines, line);) {
    std::optional<GemmRecord> record = GemmRecord::parse(line);
    if (!record) return error(Code::kForeignFile, "{} holds no GPU records: `{}`", path, shortened(line));
    out.push_back(std::move(*record));
  }
  if (out.empty()) return error(Code::kForeignFile, "{} holds no GPU records: it is empty", path);
  return out;
}

Status run_tune(const TuneArgs& args) {
  if (args.input.empty() == args.records.empty())
    return option_error("`nablac tune MODULE`, or `nablac tune --gpu-records FILE`",
                        "pass a module to measure its products on this CPU, or --gpu-records, one of the two");
  NABLA_TRY(
      format::check_files({{"the module", args.input}, {"--gpu-records", args.records}}, {{"--output", args.output}}));
  std::string text;
  if (!args.records.empty()) {
    std::vector<GemmRecord> records = NABLA_TRY(read_records(args.records));
    std::string before = NABLA_TRY(present(args.output));
    text = driver::with_records(before, records);
    std::printf("%s\n", driver::counted(records.size(), "record").c_str());
  } else {
    ir::Target target = NABLA_TRY(ir::find_target(args.target));
    ir::Module module = NABLA_TRY(ir::read_module(args.input, ops::all_ops(), ir::Places::kOfFile));
    ir::Module flat = NABLA_TRY(driver::simplify_module(module, target));
    text = NABLA_TRY(driver::tune(flat, ops::all_ops(), target, args.threads, [](const std::string& line) {
      std::printf("%s\n", line.c_str()), std::fflush(stdout);
    }));
  }
  NABLA_TRY(format::write_file(args.output, text));
  std::printf("wrote %s\n", printable(args.output).c_str());
  return Ok{};
}

}  // namespace

void add_tune(CLI::App& app, int& exit_code) {
  auto args = std::make_shared<TuneArgs>();
  CLI::App* command =
      app.add_subcommand("tune", "Measure this machine's rates, and on it the matrix products of a module; writes a tuning file");
  command->add_option("module", args->input, "the module: .nir, .nir.json or .nbl");
  command
      ->add_option("--gpu-records", args->records,
                   "gemm.records that nabla-run measured on a GPU: they go into the tuning file, beside what it holds")
      ->check(file_name());
  command->add_option("-o,--output", args->output, "the tuning file to write; default: nabla.tuning")
      ->check(file_name());
  command->add_option("--target", args->target,
                      "the target that will be compiled for; default: cpu, as nablac compile has it");
  command->add_option("--threads", args->threads, "threads to measure with; default: all")
      ->check(whole(1, 1024, "a whole number from 1 to 1024"));
  command->callback([args, &exit_code] { exit_code = report(run_tune(*args)); });
}

}  // namespace nabla::cli
