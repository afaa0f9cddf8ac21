// nablac compile: a module becomes a bundle, or one executable.
#include "cli/driver/compile.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/driver/report_text.h"
#include "cli/nablac/commands.h"
#include "cli/nablac/module_options.h"
#include "cli/validators.h"
#include "codegen/toolchain.h"
#include "ir/ops/all_ops.h"
#include "ir/serialize.h"
#include "passes/pass.h"
#include "runtime/exec/rank_team.h"
#include "runtime/format/executable.h"
#include "runtime/format/file.h"
#include "runtime/format/process.h"

namespace nabla::cli {
namespace {

struct CompileArgs {
  std::string input, output, emit = "bundle";
  ModuleOptions module;
  bool timing = false;
};

// nabla-run lies beside nablac, or where $NABLA_RUN says.
Result<std::shared_ptr<const format::FileBytes>> runtime_bytes() {
  if (const char* named = std::getenv("NABLA_RUN"); named && *named) return format::FileBytes::map(named);
  std::error_code ec;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ec);
  std::filesystem::path beside = self.parent_path() / "nabla-run";
  if (!ec && std::filesystem::exists(beside, ec)) return format::FileBytes::map(beside.string());
  Diagnostic d = error(Code::kNotFound, "nabla-run is not beside nablac ({})", beside.string());
  d.help = "build //cli:nabla-run, or name it in $NABLA_RUN";
  return d;
}

Status write_output(const CompileArgs& args, const driver::CompiledBundle& bundle) {
  if (args.emit == "exe") {
    auto runtime = NABLA_TRY(runtime_bytes());
    return format::write_executable(args.output, runtime->bytes(), bundle.bytes);
  }
  return format::write_file(args.output, bundle.bytes);
}

void note_useless_cache() {
  std::string folder = codegen::cache_directory();
  std::string problem = folder.empty() ? "$HOME is not set" : codegen::cache_problem(folder);
  if (!problem.empty())
    std::cerr << "note: compiled kernels cannot be kept in the cache `" << printable(folder) << "`: " << problem
              << "; $NABLA_CACHE names another folder, --no-cache uses none\n";
}

// Of a terminal: what stands in the line goes.
constexpr const char* kFreshLine = "\r\033[K";

void show_progress(const std::string& target, size_t done, size_t all) {
  std::fprintf(stderr, "%scompiling for %s: %zu of %zu files", kFreshLine, target.c_str(), done, all);
}

Status run_compile(CompileArgs& args) {
  args.module.compile.passes.reproduce = [](const ir::Module& before, const std::string& command) {
    keep_reproducer(before, command, {std::cout, std::cerr});
  };
  if (args.output.empty()) {
    std::filesystem::path path(args.input);
    while (path.has_extension()) path.replace_extension();
    args.output = path.string() + (args.emit == "exe" ? "" : ".nbundle");
  }
  // The input is read before its name is compared with the output's: a bundle as input is reported as a bundle.
  ir::Module module = NABLA_TRY(ir::read_module(args.input, ops::all_ops(), ir::Places::kOfFile));
  NABLA_TRY(format::check_files({{"the module", args.input}, {"--tuning", args.module.compile.tuning_file}},
                                {{"--output", args.output}, {"--auto-shard-plan", args.module.spread.plan_file()}}));
  NABLA_TRY(args.module.spread.check(module));
  if (args.module.compile.cache) note_useless_cache();
  if (isatty(STDERR_FILENO) != 0) args.module.compile.progress = show_progress;
  Result<driver::CompiledBundle> compiled = driver::compile(module, args.module.compile);
  if (args.module.compile.progress) std::fputs(kFreshLine, stderr);
  driver::CompiledBundle bundle = NABLA_TRY(std::move(compiled));
  NABLA_TRY(write_output(args, bundle));
  NABLA_TRY(args.module.spread.write_plan(bundle.passes));
  print_notes(bundle.passes, std::cerr);
  if (bundle.ranks > exec::RankTeam::kMostRanks)
    std::cerr << fmt::format("note: the bundle is for {} ranks: at most {} are threads of one machine; more are processes (nabla-run "
                             "--engine mpi --hosts FILE)\n", bundle.ranks, exec::RankTeam::kMostRanks);
  double passes = 0;
  for (const auto& p : bundle.passes) {
    passes += p.seconds;
    if (args.timing) std::printf("%9.1f ms  %s%s\n", p.seconds * 1e3, p.pass.c_str(), p.changed ? "" : " (unchanged)");
  }
  std::cout << fmt::format("wrote {}: {}, {}, {:.1f} KB of code; passes {:.2f} s, code {:.2f} s\n", printable(args.output),
                           driver::counted(module.entries.size(), "entry"), driver::counted(bundle.kernels, "kernel"),
                           static_cast<double>(bundle.code_bytes) / 1e3, passes, bundle.codegen_seconds);
  return Ok{};
}

}  // namespace

void add_compile(CLI::App& app, int& exit_code) {
  auto args = std::make_shared<CompileArgs>();
  CLI::App* command = app.add_subcommand("compile", "Compile a module ahead of time into a bundle");
  command->add_option("module", args->input, "the module: .nir, .nir.json or .nbl")->required()->check(file_name());
  command->add_option("-o,--output", args->output, "file to write; default: the module's name with .nbundle")
      ->check(file_name());
  command->add_option("--emit", args->emit, "bundle, or exe: one executable that carries the bundle")
      ->check(CLI::IsMember({"bundle", "exe"}));
  command->add_option("--target", args->module.compile.target,
                      "cpu, cpu:x86-64-v3, cpu:x86-64-v4, cpu:native, sm_80, sm_90a, sm_90a:H200 (predicts an H200)...; or a "
                      "list: a program each");
  args->module.add(*command);
  command->add_option("--jobs", args->module.compile.jobs, "compiler processes; default: one per CPU")
      ->check(whole(1, 1024, "a whole number from 1 to 1024"));
  command->add_flag_callback("--no-cache", [args] { args->module.compile.cache = false; }, "compile every kernel anew");
  command->add_flag("--timing", args->timing, "print the time of each pass");
  command->callback([args, &exit_code] { exit_code = report(run_compile(*args)); });
}

}  // namespace nabla::cli
