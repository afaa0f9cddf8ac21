// nablac compile: a module becomes a bundle, or one executable.
#include "cli/driver/compile.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/nablac/commands.h"
#include "cli/nablac/spread_options.h"
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
  driver::CompileOptions options;
  bool no_library = false, no_fuse = false, no_debug_prints = false, no_cache = false, timing = false;
  SpreadOptions spread{options};
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

Status run(CompileArgs& args) {
  args.options.library = !args.no_library;
  args.options.fuse = !args.no_fuse;
  args.options.debug = !args.no_debug_prints;
  args.options.cache = !args.no_cache;
  args.options.passes.reproduce = [](const ir::Module& before, const std::string& command) {
    keep_reproducer(before, command, {std::cout, std::cerr});
  };
  if (args.output.empty()) {
    std::filesystem::path path(args.input);
    while (path.has_extension()) path.replace_extension();
    args.output = path.string() + (args.emit == "exe" ? "" : ".nbundle");
  }
  NABLA_TRY(format::check_files({{"the module", args.input}, {"--tuning", args.options.tuning_file}},
                                {{"--output", args.output}, {"--auto-shard-plan", args.spread.plan_file()}}));
  ir::Module module = NABLA_TRY(ir::read_module(args.input, ops::all_ops(), ir::Places::kOfFile));
  NABLA_TRY(args.spread.check(module));
  if (args.options.cache) note_useless_cache();
  if (isatty(STDERR_FILENO) != 0) args.options.progress = show_progress;
  Result<driver::CompiledBundle> compiled = driver::compile(module, args.options);
  if (args.options.progress) std::fputs(kFreshLine, stderr);
  driver::CompiledBundle bundle = NABLA_TRY(std::move(compiled));
  NABLA_TRY(write_output(args, bundle));
  NABLA_TRY(args.spread.write_plan(bundle.passes));
  print_notes(bundle.passes, std::cerr);
  if (bundle.ranks > exec::RankTeam::kMostRanks)
    std::cerr << fmt::format("note: the bundle is for {} ranks: at most {} are threads of one machine; more are processes (nabla-run "
                             "--engine mpi --hosts FILE)\n", bundle.ranks, exec::RankTeam::kMostRanks);
  double passes = 0;
  for (const auto& p : bundle.passes) {
    passes += p.seconds;
    if (args.timing) std::printf("%9.1f ms  %s%s\n", p.seconds * 1e3, p.pass.c_str(), p.changed ? "" : " (unchanged)");
  }
  std::printf("wrote %s: %zu entries, %zu kernels, %.1f KB of code; passes %.2f s, code %.2f s\n",
              printable(args.output).c_str(), module.entries.size(), bundle.kernels,
              static_cast<double>(bundle.code_bytes) / 1e3, passes, bundle.codegen_seconds);
  return Ok{};
}

// Of the passes over collectives.
void add_collective_options(CLI::App& command, CompileArgs& args) {
  SpreadOptions& spread = args.spread;
  auto add = [&](const char* flag, const char* pass, const char* option) { return spread.add(command, flag, pass, option); };
  add("--bucket-bytes", "bucket-collectives", "bucket-bytes")->check(number_of_bytes());
  add("--first-bucket-bytes", "bucket-collectives", "first-bucket-bytes")->check(number_of_bytes());
  command
      .add_option_function<std::string>(
          "--max-comm-bytes",
          [&](const std::string& most) { args.options.max_comm_bytes = most, args.spread.note("--max-comm-bytes"); },
          fmt::format("fail when a rank sends more in a run of an entry: {}", kByteUnits))
      ->check(number_of_bytes());
  CLI::Option* overlap = add("--overlap-bytes", "schedule-collectives", "overlap-bytes")->check(number_of_bytes());
  CLI::Option* prefetch = add("--prefetch", "schedule-collectives", "prefetch")->check(CLI::Range(0, INT_MAX));
  add("--reshard-after-forward", "regather", "reshard-after-forward")->check(CLI::IsMember({"true", "false"}));
  add("--hoist-collectives", "hoist-collectives", "ops");
  command.add_flag("--deterministic", args.options.deterministic,
                   "the same bits on 1, 2, 4 or 8 ranks, any microbatches and threads: sums as eight parts and a tree, "
                   "without libraries and fused multiply-adds");
  auto no_overlap = [&args] { args.options.overlap = false, args.spread.note("--no-overlap"); };
  command.add_flag_callback("--no-overlap", no_overlap, "wait for every collective, and every copy of state, where it starts")
      ->excludes(overlap)
      ->excludes(prefetch);
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
  command->add_option("--target", args->options.target,
                      "cpu, cpu:x86-64-v3, cpu:x86-64-v4, cpu:native, sm_80, sm_90a...; or a list: a program each");
  command->add_flag("--no-library", args->no_library, "generate every kernel; the bundle needs no library");
  command->add_flag("--no-fuse", args->no_fuse,
                    "a kernel for every op: slow, but nabla-run --check-nan then names the op that made NaN");
  command->add_flag("--no-debug-prints", args->no_debug_prints, "leave out debug prints and callbacks");
  command->add_flag(
      "--tf32", args->options.tf32,
      "f32 products of GPUs may round their factors to tf32: faster, with 10 bits of fraction");
  command->add_option("--tuning", args->options.tuning_file, "tuning file that nablac tune wrote")->check(file_name());
  args->spread.add_max_bytes(*command);
  command
      ->add_option("--remat-bytes", args->options.remat_bytes,
                   fmt::format("compute values again where the program would need more memory: {}", kByteUnits))
      ->check(number_of_bytes());
  args->spread.add_all(*command);
  command
      ->add_option("--max-gather-bytes", args->options.max_gather_bytes,
                   fmt::format("fail when ranks gather a larger value for an op that they cannot share [16MiB]: {}",
                               kByteUnits))
      ->check(number_of_bytes())
      ->each([args](const std::string&) { args->spread.note("--max-gather-bytes"); });
  add_collective_options(*command, *args);
  command
      ->add_option("--specialize", args->options.specialise,
                   "batch=1,8,32: also code for these sizes, which runs choose where they fit; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--buckets", args->options.buckets,
                   "batch=8,64: a GPU records its launches for sizes up to these; default: up to powers of two")
      ->allow_extra_args(false);
  command->add_option("--jobs", args->options.jobs, "compiler processes; default: one per CPU")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--no-cache", args->no_cache, "compile every kernel anew");
  command->add_flag("--timing", args->timing, "print the time of each pass");
  command->callback([args, &exit_code] { exit_code = report(run(*args)); });
}

}  // namespace nabla::cli
