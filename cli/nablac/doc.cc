// nablac doc: the generated references.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "cli/nablac/commands.h"
#include "cli/validators.h"
#include "ir/ops/all_ops.h"
#include "passes/pass.h"
#include "passes/pipeline.h"
#include "runtime/base/option_error.h"
#include "runtime/format/file.h"

namespace nabla::cli {
namespace {

constexpr const char* kTopics = "ops, op NAME, coverage, shards, passes, errors, refusals";

Result<std::string> page(const std::string& topic, const std::string& name) {
  if (topic != "op" && !name.empty())
    return option_error(fmt::format("`nablac doc {}` is all", topic), "doc {} takes no name, got `{}`", topic, name);
  if (topic == "ops") return doc_ops(ops::all_ops());
  if (topic == "errors") return doc_errors();
  if (topic == "passes") return doc_passes();
  if (topic == "refusals") return doc_refusals(ops::all_ops());
  if (topic == "coverage") return doc_coverage(ops::all_ops());
  if (topic == "shards") return doc_shards(ops::all_ops());
  if (topic == "op" && name.empty())
    return option_error("such as `nablac doc op add`; `nablac doc ops` lists them", "doc op: the op's name is missing");
  if (topic == "op") return doc_op(ops::all_ops(), name);
  return option_error(fmt::format("topics are {}", kTopics), "doc: unknown topic `{}`{}", topic,
                      did_you_mean(topic, {"ops", "op", "coverage", "shards", "passes", "errors", "refusals"}));
}

Status doc(const std::string& topic, const std::string& name, const std::string& folder, const Streams& streams) {
  std::string text = NABLA_TRY(page(topic, name));
  if (!folder.empty()) return format::write_file(folder + "/" + (name.empty() ? topic : name) + ".md", text);
  streams.out << text;
  return Ok{};
}

}  // namespace

std::string doc_errors() {
  std::string out =
      "# Errors\n\nMade by `nablac doc errors`. Numbers are stable: a number is never used for another error.\n\n"
      "| Code | Meaning | What to do |\n|---|---|---|\n";
  int count = 0;
  const CodeInfo* codes = all_codes(count);
  for (int i = 0; i < count; ++i)
    out += fmt::format("| {} | {} | {} |\n", code_name(codes[i].code), codes[i].title,
                       codes[i].help.empty() ? "what the message says" : codes[i].help);
  return out;
}

std::string doc_passes() {
  std::string out =
      "# Passes\n\nMade by `nablac doc passes`.\n\n## The pipeline\n\nWhat `nablac compile` runs, in order:\n\n";
  int number = 1;
  ir::Stage stage = ir::Stage::kTraced;
  for (const passes::PipelineStep& step : passes::default_pipeline()) {
    const passes::Pass& pass = *passes::find_pass(step.pass);
    bool goes_on = pass.stage_out > pass.stage_in;
    out += fmt::format("{}. `{}`{}: {}\n", number++, step.pass,
                       goes_on ? fmt::format(" (from {} to {})", name_of(stage), name_of(pass.stage_out)) : "",
                       step.reason);
    if (goes_on) stage = pass.stage_out;
  }
  out += "\nHow far a module has come, its stage, says which passes it can still go through:\n\n| Stage | |\n|---|---|\n";
  for (const passes::StageOfPipeline& s : passes::stages_of_pipeline())
    out += fmt::format("| {} | {} |\n", name_of(s.stage), s.what);
  for (const passes::Pass& pass : passes::all_passes()) {
    out += fmt::format("\n## {}\n\n{}: {} Stage {} to {}.\n", pass.name, pass.summary, pass.doc, name_of(pass.stage_in),
                       name_of(pass.stage_out));
    if (!pass.options.empty()) out += "\n| Option | Default | |\n|---|---|---|\n";
    for (const passes::PassOption& o : pass.options)
      out += fmt::format("| `{}` | {} | {} |\n", o.name, o.default_value.empty() ? "none" : o.default_value, o.doc);
  }
  return out;
}

void add_doc(CLI::App& app, const Streams& streams, Action& action) {
  struct Options {
    std::string topic, name, folder;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("doc", fmt::format("Prints a reference in Markdown: {}", kTopics));
  command->add_option("TOPIC", options->topic, kTopics)->required();
  command->add_option("NAME", options->name, "the op's name");
  command->add_option("--out", options->folder, "write TOPIC.md (or NAME.md) into this folder instead")
      ->check(file_name());
  command->callback([=, &streams, &action] {
    action = [=, &streams] { return finish(doc(options->topic, options->name, options->folder, streams), streams); };
  });
}

}  // namespace nabla::cli
