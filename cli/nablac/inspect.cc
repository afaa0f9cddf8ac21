// nablac inspect: what a model or a bundle is, and what it needs.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>

#include "cli/driver/compile.h"
#include "cli/driver/page/page.h"
#include "cli/driver/report.h"
#include "cli/driver/report_json.h"
#include "cli/driver/report_ranks.h"
#include "cli/nablac/commands.h"
#include "cli/nablac/module_options.h"
#include "cli/validators.h"
#include "ir/ops/all_ops.h"
#include "ir/serialize.h"
#include "runtime/base/option_error.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/file.h"
#include "runtime/format/process.h"

namespace nabla::cli {
namespace {

struct InspectArgs {
  std::string input, html, target, rank_class, profile;  // no target: the default one
  std::vector<std::string> at;
  bool json = false, source = false;
  ModuleOptions module;
};

bool is_module(const std::string& path) { return ir::form_of(path).ok(); }

// A member that is a report: what is printed as JSON is read by programs, so that a damaged one is refused for all.
Result<std::string> report_in(const format::Bundle& bundle, const std::string& member) {
  std::string text(format::as_text(bundle.member(member)));
  if (text.empty()) return error(Code::kCorrupt, "{} carries no {}", bundle.what(), member);
  (void)NABLA_TRY(driver::parse_report(text, fmt::format("{}: {}", bundle.what(), member)));
  return text;
}

// The report of the class's program for `target`; empty: of its first. A class has report.json, of its first program,
// and report_TARGET.json for each other.
Result<std::string> report_of(const format::Bundle& bundle, const format::BundleClass& of, const std::string& target) {
  std::string first = NABLA_TRY(report_in(bundle, of.folder + "report.json"));
  if (target.empty()) return first;
  const ir::Target asked = NABLA_TRY(ir::find_target(target));
  std::string wanted = asked.name, known = driver::target_of_report(first);
  if (asked.is_cuda() && target != wanted)
    return option_error(fmt::format("leave the GPU out, or compile with --target {}", target),
                        "--target {}: the times of {} were predicted when it was compiled", target, bundle.what());
  if (known == wanted) return first;
  for (const format::ZipMember& m : bundle.members()) {
    if (!m.name.starts_with(of.folder + "report_")) continue;
    std::string other = NABLA_TRY(report_in(bundle, m.name));
    if (driver::target_of_report(other) == wanted) return other;
    known += ", " + driver::target_of_report(other);
  }
  return error(Code::kUnknownTarget, "{} has no program for {}; it has those for {}", bundle.what(), wanted, known);
}

// Of all classes, or of one; of all targets, or of one.
Status print_source(const format::Bundle& bundle, const InspectArgs& args, const Streams& streams) {
  for (const format::BundleClass& of : bundle.classes()) {
    if (!args.rank_class.empty() && of.name != args.rank_class) continue;
    std::optional<ir::Target> target;
    if (!args.target.empty())
      target = NABLA_TRY(ir::find_target(driver::target_of_report(NABLA_TRY(report_of(bundle, of, args.target)))));
    for (const format::ZipMember& m : bundle.members())
      if (target ? driver::is_source_of(m.name, of, *target) : m.name.starts_with(of.folder + "source/"))
        streams.out << "// ---- " << m.name << "\n" << format::as_text(bundle.member(m.name)) << "\n";
  }
  return Ok{};
}

Status run_inspect(InspectArgs& args, const Streams& streams) {
  if (args.json + args.source + !args.html.empty() > 1)
    return option_error("leave all but one out", "--json, --source and --html exclude each other");
  if (!args.at.empty() && (args.json || args.source))
    return option_error("leave it out, or inspect without --json and --source",
                        "--at is for the printed report and for --html, not for --json or --source");
  if (!args.profile.empty() && args.html.empty())
    return option_error("say where the page goes: --html FILE", "--profile is for --html; `nabla-run --profile` prints the table itself");
  std::vector<format::NamedFile> inputs{{"the module or bundle", args.input}};
  if (!args.profile.empty()) inputs.push_back({"--profile", args.profile});
  NABLA_TRY(format::check_files(inputs, {{"--html", args.html}, {"--auto-shard-plan", args.module.spread.plan_file()}}));
  if (args.target.find(',') != std::string::npos)
    return option_error("name one of them", "nablac inspect shows one target's program; --target names several: {}", args.target);
  std::string report;
  std::map<std::string, std::string> texts;
  if (is_module(args.input)) {
    if (args.source)
      return option_error("compile it, and inspect what that makes",
                          "--source shows a bundle's generated code; {} is a module", args.input);
    if (!args.rank_class.empty())
      return option_error("leave it out, or compile the module and inspect what that makes",
                          "--class is for bundles for several ranks; {} is a module", args.input);
    if (!args.target.empty()) args.module.compile.target = args.target;
    args.module.compile.passes.reproduce = [&](const ir::Module& before, const std::string& command) {
      keep_reproducer(before, command, streams);
    };
    ir::Module module = NABLA_TRY(ir::read_module(args.input, ops::all_ops(), ir::Places::kOfFile));
    NABLA_TRY(args.module.spread.check(module));
    driver::CompiledModule lowered = NABLA_TRY(driver::lower_module(module, args.module.compile));
    NABLA_TRY(args.module.spread.write_plan(lowered.passes));
    report = std::move(lowered.report);
  } else {
    if (std::string option = args.module.given(); !option.empty())
      return option_error("compile the module with it, and inspect what that makes",
                          "{} is for modules; {} is a bundle, whose code stands", option, args.input);
    format::Bundle bundle = NABLA_TRY(format::Bundle::open(args.input));
    if (!args.rank_class.empty()) (void)NABLA_TRY(bundle.need_class(args.rank_class));
    if (args.source) return print_source(bundle, args, streams);
    bool overview = bundle.ranks() && args.rank_class.empty() && args.target.empty() && !args.json &&
                    args.html.empty() && args.at.empty();
    if (overview) streams.out << printable(driver::ranks_text(bundle), "\n");
    if (overview && bundle.classes().size() > 1) return Ok{};
    if (overview) streams.out << "\nwhat one rank does:\n";
    const format::BundleClass& of = *NABLA_TRY(bundle.need_class(args.rank_class));
    report = NABLA_TRY(report_of(bundle, of, args.target));
    if (!args.html.empty()) texts = driver::kernel_texts(bundle, of, report);
  }
  if (!args.html.empty()) {
    driver::PageInput page{std::filesystem::path(args.input).filename().string(), report, texts};
    page.sizes = NABLA_TRY(driver::parse_sizes(args.at, spelled(driver::kAtOption)));
    if (!args.profile.empty()) page.profile = NABLA_TRY(driver::profile_in(args.profile));
    std::string html = NABLA_TRY(driver::make_page(page));
    return format::write_file(args.html, html);
  }
  std::vector<driver::SizeLists> sizes;
  for (const std::string& at : args.at) sizes.push_back(NABLA_TRY(driver::parse_sizes({at}, spelled(driver::kAtOption))));
  std::string text = args.json ? report + "\n" : NABLA_TRY(driver::report_text(report, sizes));
  streams.out << printable(text, "\n");
  return Ok{};
}

}  // namespace

void add_inspect(CLI::App& app, const Streams& streams, Action& action) {
  auto args = std::make_shared<InspectArgs>();
  CLI::App* command = app.add_subcommand("inspect", "Show a model's or a bundle's signature, work, memory and kernels");
  command->add_option("file", args->input, "a module (.nir, .nir.json, .nbl) or a bundle")->required();
  command->add_option("--target", args->target,
                      "of a module: the target to plan for; of a bundle: the program to look at");
  command->add_option("--class", args->rank_class, "of a bundle for several ranks: the class to look at");
  command
      ->add_option("--at", args->at, "batch=8,len=16: formulas of symbolic sizes evaluated there; where --html starts")
      ->allow_extra_args(false);
  args->module.add(*command);
  command->add_flag("--json", args->json, "print the report as JSON");
  command->add_option("--html", args->html, "write the report as a page for a browser: graph, memory, work, kernels")
      ->check(file_name());
  command
      ->add_option("--profile", args->profile,
                   "with --html: a trace of `nabla-run --trace FILE --profile`, whose times stand beside the predictions")
      ->check(file_name());
  command->add_flag("--source", args->source, "print the generated code of a bundle");
  command->callback(
      [=, &streams, &action] { action = [=, &streams] { return finish(run_inspect(*args, streams), streams); }; });
}

}  // namespace nabla::cli
