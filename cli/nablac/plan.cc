// nablac plan MODULE --ranks N: what the model costs on every mesh of so many ranks, before one of them is there.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <ostream>

#include "cli/driver/plan.h"
#include "cli/nablac/commands.h"
#include "cli/nablac/spread_options.h"
#include "cli/validators.h"
#include "ir/ops/all_ops.h"
#include "ir/serialize.h"
#include "runtime/base/option_error.h"
#include "runtime/base/text.h"

namespace nabla::cli {
namespace {

struct PlanArgs {
  std::string input;
  bool json = false, progress = false;
  driver::PlanOptions options;
  SpreadOptions spread{options.compile};
};

Status run_plan(PlanArgs& args, const Streams& streams) {
  ir::Module module = NABLA_TRY(ir::read_module(args.input, ops::all_ops(), ir::Places::kOfFile));
  int64_t most = args.options.max_bytes ? args.options.max_bytes->count : driver::kNoLimit;
  auto say = [](size_t done, size_t all) { std::fprintf(stderr, "\r\033[Kplanning: %zu of %zu", done, all); };
  std::function<void(size_t, size_t)> progress;
  if (args.progress) progress = say;
  auto rows = driver::plan_of(module, args.options, progress);
  if (args.progress) std::fputs("\r\033[K", stderr);
  if (!rows.ok()) return std::move(rows.errors());
  streams.out << (args.json ? driver::plan_json(*rows) + "\n" : driver::plan_text(*rows, most));
  bool any = std::any_of(rows->begin(), rows->end(), [&](const driver::PlanRow& r) {
    return r.refusal.empty() && r.ranks == args.options.ranks;
  });
  if (any) return Ok{};
  return option_error("try other --ranks or --axes",
                      "the program compiles on no mesh of {} ranks: the lines above say why", args.options.ranks);
}

}  // namespace

void add_plan(CLI::App& app, const Streams& streams, Action& action) {
  auto args = std::make_shared<PlanArgs>();
  CLI::App* command =
      app.add_subcommand("plan", "Compares meshes, ZeRO stages and found layouts for a model: memory, bytes sent, predicted step");
  command->add_option("module", args->input, "the module: .nir, .nir.json or .nbl")->required();
  command->add_option("--ranks", args->options.ranks, "how many there are to be")
      ->required()
      ->check(whole(1, 4096, "a whole number from 1 to 4096"));
  command->add_option("--entry", args->options.entry, "whose run is a step [the first that computes gradients]");
  command->add_option("--axes", args->options.axes, "dp,tp: axes for a module that has no mesh [dp]");
  args->spread.add_rules(*command);
  auto set_data_axes = [args](const std::string& text) {
    passes::PassOptions read;
    set_from_flag(read, *passes::find_option("data-axes"), "--data-axes", text);
    args->options.data_axes = read.apply_strategy.data_axes;
  };
  command->add_option_function<std::string>("--data-axes", set_data_axes,
                      "dp or rep,dp: axes of the mesh along which the batch lies [dp, or the first]; where given, in rows of "
                      "found layouts too, which else lay out the batch themselves");
  command->add_option("--target", args->options.compile.target, "what predictions are for, such as sm_90a:H200 [cpu]");
  command
      ->add_option("--tuning", args->options.compile.tuning_file, "tuning file that nablac tune wrote: rates of the machine that runs it")
      ->check(file_name());
  args->spread.add_microbatches(*command);
  args->spread.add_offload(*command);
  add_bytes(*command, "--max-bytes", "memory of a rank; what needs more stands below, and layouts are found within it",
            [args](passes::Bytes most) { args->options.max_bytes = most; });
  command->add_flag("--json", args->json, "print the rows as JSON");
  command->callback([=, &streams, &action] {
    action = [=, &streams] {
      args->progress = isatty(STDERR_FILENO) != 0;
      Status status = run_plan(*args, streams);
      return status.ok() ? 0 : finish(std::move(status.errors()), streams);
    };
  });
}

}  // namespace nabla::cli
