// nablac opt: runs passes on a module and prints what they make of it.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/ranges.h>

#include "cli/driver/sharded_text.h"
#include "cli/nablac/commands.h"
#include "cli/validators.h"
#include "codegen/program/build.h"
#include "codegen/program/print.h"
#include "ir/ops/all_ops.h"
#include "ir/serialize.h"
#include "ir/target.h"
#include "ir/verifier.h"
#include "passes/pass_manager.h"
#include "runtime/base/option_error.h"
#include "runtime/format/file.h"
#include "runtime/format/process.h"

namespace nabla::cli {
namespace {

struct OptOptions {
  std::string in, out, target = "cpu", pipeline_to;
  std::vector<std::string> passes;
  passes::ManagerOptions manager;
  bool locations = false, timing = false, program = false, no_library = false;
};

/// The default pipeline's steps for a module at stage `from` that end at `stage` or before.
Result<std::vector<passes::Step>> steps_to(const std::string& stage, ir::Stage from) {
  std::optional<ir::Stage> last = ir::stage_from_name(stage);
  if (!last) {
    std::vector<std::string> known;
    for (int i = 0; i < ir::kStageCount; ++i) known.emplace_back(name_of(static_cast<ir::Stage>(i)));
    return option_error(fmt::format("stages are {}", fmt::join(known, ", ")),
                        "--pipeline-to: unknown stage `{}`{}", stage, did_you_mean(stage, known));
  }
  return passes::default_steps(from, *last);
}

Result<std::vector<passes::Step>> steps_of(const OptOptions& o, ir::Stage from) {
  if (!o.pipeline_to.empty() && !o.passes.empty())
    return option_error("--pass runs the named passes, --pipeline-to all up to a stage: leave one out",
                        "--pass and --pipeline-to exclude each other");
  if (!o.pipeline_to.empty()) return steps_to(o.pipeline_to, from);
  if (o.program && o.passes.empty()) return steps_to(std::string(name_of(ir::Stage::kPlanned)), from);
  std::vector<passes::Step> out;
  for (const std::string& text : o.passes) out.push_back(NABLA_TRY(passes::parse_step(text)));
  return out;
}

Status print_program(const OptOptions& o, const ir::Module& module, const ir::Target& target, const Streams& streams) {
  if (module.stage != ir::Stage::kPlanned) {
    Diagnostic d = error(Code::kBadOption, "--program: the module is at stage `{}`, a program is made of a planned one",
                         name_of(module.stage));
    d.help = "without --pass and --pipeline-to all passes run";
    return d;
  }
  std::string text = print(NABLA_TRY(program::build(module, target)));
  if (!o.out.empty()) return format::write_file(o.out, text);
  streams.out << text;
  return Ok{};
}

Status opt(const OptOptions& o, const Streams& streams) {
  ir::Target target = NABLA_TRY(ir::find_target(o.target));
  target.library = !o.no_library;  // as nablac compile has it
  if (!o.out.empty() && !o.program) (void)NABLA_TRY(ir::form_of(o.out));
  (void)NABLA_TRY(format::check_files({{"IN", o.in}}, {{"--output", o.out}}));
  // Places are for errors; what is written keeps those that the module brings.
  ir::Places places = o.locations || !o.out.empty() ? ir::Places::kAsWritten : ir::Places::kOfFile;
  ir::Module module = NABLA_TRY(ir::read_module(o.in, ops::all_ops(), places));
  std::vector<passes::Step> steps = NABLA_TRY(steps_of(o, module.stage));
  ir::PrintOptions print_options{.locations = o.locations};

  passes::ManagerOptions manager = o.manager;
  manager.verify = [](const ir::Module& m) { return ir::verify(m); };
  manager.print = [&](const passes::Pass& pass, const ir::Module& m, bool changed) {
    streams.out << "// after " << pass.name << (changed ? "" : " (no change)") << "\n"
                << print(m, print_options) << "\n";
  };
  manager.reproduce = [&](const ir::Module& before, const std::string& command) {
    keep_reproducer(before, command, streams);
  };
  passes::ManagerResult result = NABLA_TRY(passes::run_passes(module, steps, ops::all_ops(), target, manager));
  for (const passes::PassReport& report : result.reports) {
    if (o.timing) streams.err << fmt::format("{:>10.3f} ms  {}\n", report.seconds * 1e3, report.pass);
    for (const ir::Remark& remark : report.remarks) streams.err << report.pass << ": " << remark.text << "\n";
  }
  if (o.program) return print_program(o, result.module, target, streams);
  if (!o.out.empty()) return ir::write_module(o.out, result.module);
  // Single passes may stand before others that decide about sums.
  streams.out << (o.passes.empty() ? NABLA_TRY(driver::sharded_text(result.module, target, print_options))
                                   : print(result.module, print_options));
  return Ok{};
}

}  // namespace

void add_opt(CLI::App& app, const Streams& streams, Action& action) {
  auto o = std::make_shared<OptOptions>();
  CLI::App* command = app.add_subcommand("opt", "Runs passes on a module and prints the result");
  command->add_option("IN", o->in, "a module: .nbl, .nir.json or .nir")->required();
  command->add_option("--pass", o->passes, "a pass, NAME or NAME{OPTION=VALUE,...}; may be repeated")->take_all();
  command->add_option("--pipeline-to", o->pipeline_to, "the default pipeline, up to and including this stage");
  command->add_option("--target", o->target, "what to compile for; `cpu` by default");
  command->add_flag("--no-library", o->no_library, "generate every kernel, as nablac compile --no-library does");
  command->add_option("--print-after", o->manager.print_after, "print the module after this pass; may be repeated");
  command->add_flag("--print-after-all", o->manager.print_after_all, "print the module after every pass");
  command->add_flag("--print-changed", o->manager.print_changed, "print the module after every pass that changes it");
  command->add_option("--stop-after", o->manager.stop_after, "the last pass to run");
  command->add_flag("--program", o->program, "print the local program that the result becomes, as text");
  command->add_flag("--locations", o->locations, "print source locations");
  command->add_flag("--timing", o->timing, "print how long each pass took");
  command->add_option("-o,--output", o->out, "write the result to this file instead")->check(file_name());
  command->callback([=, &streams, &action] { action = [=, &streams] { return finish(opt(*o, streams), streams); }; });
}

}  // namespace nabla::cli
