// nablac why MODULE VALUE: why a value is laid out over the mesh as it is.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "cli/driver/spread.h"
#include "cli/nablac/commands.h"
#include "cli/nablac/spread_options.h"
#include "ir/ops/all_ops.h"
#include "ir/serialize.h"
#include "passes/shard/propagate.h"

namespace nabla::cli {
namespace {

struct Options {
  std::string input, entry;
  std::vector<std::string> values;
  driver::CompileOptions compile;
  SpreadOptions spread{compile};
};

// The first entry that has the value, or the one that is named.
Result<std::string> explained(const ir::Module& flat, const Options& options, const std::string& value,
                              passes::PassContext& context) {
  Diagnostics problems;
  std::vector<std::string> names;
  for (const ir::Entry& e : flat.entries) {
    names.push_back(e.name);
    if (!options.entry.empty() && e.name != options.entry) continue;
    Result<std::string> text = passes::explain_layout(flat, e.function, value, context);
    if (text.ok() || text.errors()[0].code != Code::kUnknownName) return text;
    if (problems.empty()) problems = text.errors();
  }
  if (!problems.empty() && names.size() > 1 && options.entry.empty()) {
    Diagnostic d = error(Code::kUnknownName, "no entry has a value `{}`", value);
    d.help = "`nablac opt --pipeline-to flat` prints all values; inputs go by their names";
    return d;
  }
  if (!problems.empty()) return problems;
  return error(Code::kBadOption, "--entry: the module has no entry `{}`{}", options.entry, did_you_mean(options.entry, names));
}

Status run(const Options& options, const Streams& streams) {
  ir::Module module = NABLA_TRY(ir::read_module(options.input, ops::all_ops(), ir::Places::kOfFile));
  NABLA_TRY(options.spread.check(module));
  driver::CompileOptions spread = options.compile;
  module = NABLA_TRY(driver::spread_over_mesh(module, spread));
  ir::Target target = NABLA_TRY(ir::find_target("cpu"));
  if (auto strategy = spread.pass_options.find("apply-strategy"); strategy != spread.pass_options.end())
    module = NABLA_TRY(passes::run_passes(module, {{strategy->first, strategy->second}}, ops::all_ops(), target)).module;
  ir::Module flat = NABLA_TRY(driver::simplify_module(module, target, {}, ir::Stage::kFlat));
  if (auto search = spread.pass_options.find("auto-shard"); search != spread.pass_options.end())
    flat = NABLA_TRY(passes::run_passes(flat, {{search->first, search->second}}, ops::all_ops(), target)).module;
  passes::PassContext context{ops::all_ops(), target};
  for (const std::string& value : options.values) streams.out << NABLA_TRY(explained(flat, options, value, context));
  return Ok{};
}

}  // namespace

void add_why(CLI::App& app, const Streams& streams, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("why", "Says why values are laid out over the mesh as they are");
  command->add_option("module", options->input, "the module: .nir, .nir.json or .nbl")->required();
  command->add_option("values", options->values, "as `nablac opt --pipeline-to flat` names them: %h, or h; inputs by their names")
      ->required();
  command->add_option("--entry", options->entry, "look in this entry; default: the first that has the value");
  options->spread.add_layouts(*command);
  command->callback([=, &streams, &action] {
    action = [=, &streams] {
      Status status = run(*options, streams);
      return status.ok() ? 0 : finish(std::move(status.errors()), streams);
    };
  });
}

}  // namespace nabla::cli
