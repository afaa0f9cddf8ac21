// nablac why MODULE VALUE: why a value is laid out over the mesh as it is.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/ranges.h>
#include <map>

#include "cli/driver/spread.h"
#include "cli/nablac/commands.h"
#include "cli/nablac/spread_options.h"
#include "ir/ops/all_ops.h"
#include "ir/serialize.h"
#include "passes/shard/propagate.h"
#include "runtime/base/option_error.h"

namespace nabla::cli {
namespace {

struct WhyOptions {
  std::string input, entry;
  std::vector<std::string> values;
  driver::CompileOptions compile;
  SpreadOptions spread{compile};
};

// By what `nablac why` calls who said a layout, and the dimension: the option that said it, where the module did not.
using SaidByOption = std::map<std::pair<std::string, int>, std::string>;

// Where dimensions are laid out otherwise than before, the option said it.
void note_changes(const ir::Module& before, const ir::Module& after, const std::string& option, SaidByOption& said) {
  auto note = [&](const ir::ShardingRef& was, const ir::ShardingRef& is, const std::string& who) {
    for (int d = 0; is && d < static_cast<int>(is->dims.size()); ++d) {
      const ir::DimSharding open{{}, true}, &before_it = was ? was->dims[static_cast<size_t>(d)] : open;
      const ir::DimSharding& now = is->dims[static_cast<size_t>(d)];
      if (before_it.axes == now.axes && before_it.open == now.open) continue;
      std::string& by = said[{who, d}];
      by += by.empty() && before_it.axes.empty() ? option : by.empty() ? "the program and " + option : " and " + option;
    }
  };
  for (size_t i = 0; i < after.state.size(); ++i)
    note(before.state[i].sharding, after.state[i].sharding, "state leaf " + after.state[i].name);
  for (const ir::Entry& e : after.entries) {
    const ir::Function &f = *after.find(e.function), &g = *before.find(e.function);
    for (ir::ValueId p : f.params) note(g.values[p].sharding, f.values[p].sharding, ir::value_phrase(f, p));
  }
}

// The module with its strategy, whose options are applied one more at a time, so that each shows what it says; what slots have of
// parameters that the program lays out needs no option.
Result<ir::Module> with_strategy(const ir::Module& module, const passes::ApplyStrategyOptions& options, const ir::Target& target,
                                 SaidByOption& said, std::vector<passes::PassReport>& reports) {
  passes::PassOptions given;
  ir::Module out = module;
  auto apply = [&](const std::string& option) -> Status {
    auto next = NABLA_TRY(passes::run_passes(module, {{"apply-strategy", given}}, ops::all_ops(), target));
    note_changes(out, next.module, option, said);
    out = std::move(next.module), reports = std::move(next.reports);
    return Ok{};
  };
  if (module.stage == ir::Stage::kTraced) NABLA_TRY(apply("its parameter"));
  if (!options.layouts.empty()) {
    given.apply_strategy.layouts = options.layouts;
    NABLA_TRY(apply("--layout"));
  }
  if (!options.data_axes.empty()) {
    given.apply_strategy.data_axes = options.data_axes;
    NABLA_TRY(apply(options.data_axes == passes::Names{"mb"} ? "--microbatches" : "--data-axes"));
  }
  if (given.apply_strategy == options) return out;
  given.apply_strategy = options;
  NABLA_TRY(apply("--zero"));
  return out;
}

// The explanation. Where an option gave the layout and not the program, it names the option.
std::string with_options(const passes::LayoutExplanation& explanation, const SaidByOption& said) {
  return print(explanation, [&](const passes::DimExplanation& dim) {
    auto option = said.find({dim.said_by, dim.said_dim});
    return option == said.end() ? dim.said_by : fmt::format("{}, of {}", option->second, dim.said_by);
  });
}

// The first entry that has the value, or the one that is named.
Result<passes::LayoutExplanation> explained(const ir::Module& flat, const WhyOptions& options, const std::string& value,
                                            passes::PassContext& context) {
  Diagnostics problems;
  std::vector<std::string> names;
  for (const ir::Entry& e : flat.entries) {
    names.push_back(e.name);
    if (!options.entry.empty() && e.name != options.entry) continue;
    Result<passes::LayoutExplanation> found = passes::explain_layout(flat, e.function, value, context);
    if (found.ok() || found.errors()[0].code != Code::kUnknownName) return found;
    if (problems.empty()) problems = found.errors();
  }
  if (!problems.empty() && names.size() > 1 && options.entry.empty()) {
    Diagnostic d = error(Code::kUnknownName, "no entry has a value `{}`", value);
    d.help = "`nablac opt --pipeline-to flat` prints all values; inputs go by their names";
    return d;
  }
  if (!problems.empty()) return problems;
  return option_error(fmt::format("its entries are {}", fmt::join(names, ", ")),
                      "--entry: the module has no entry `{}`{}", options.entry, did_you_mean(options.entry, names));
}

Status run_why(const WhyOptions& options, const Streams& streams) {
  ir::Module module = NABLA_TRY(ir::read_module(options.input, ops::all_ops(), ir::Places::kOfFile));
  NABLA_TRY(options.spread.check(module));
  driver::CompileOptions spread = options.compile;
  module = NABLA_TRY(driver::spread_over_mesh(module, spread));
  ir::Target target = NABLA_TRY(ir::find_target("cpu"));
  SaidByOption said;
  std::vector<passes::PassReport> reports;  // of the strategy as a whole
  module = NABLA_TRY(with_strategy(module, spread.pass_options.apply_strategy, target, said, reports));
  print_notes(reports, streams.err);
  ir::Module flat = NABLA_TRY(driver::simplify_module(module, target, {}, ir::Stage::kFlat));
  if (spread.pass_options.auto_shard.search) {
    flat = NABLA_TRY(passes::run_passes(flat, {{"auto-shard", spread.pass_options}}, ops::all_ops(), target)).module;
    streams.err << "note: layouts are explained as the search has found them; a compile takes others where these are quicker, and "
                   "`nablac inspect --auto-shard` says so in a note\n";
  }
  passes::PassContext context{ops::all_ops(), target};
  for (const std::string& value : options.values)
    streams.out << with_options(NABLA_TRY(explained(flat, options, value, context)), said);
  return Ok{};
}

}  // namespace

void add_why(CLI::App& app, const Streams& streams, Action& action) {
  auto options = std::make_shared<WhyOptions>();
  CLI::App* command = app.add_subcommand("why", "Says why values are laid out over the mesh as they are");
  command->add_option("module", options->input, "the module: .nir, .nir.json or .nbl")->required();
  command->add_option("values", options->values, "as `nablac opt --pipeline-to flat` names them: %h, or h; inputs by their names")
      ->required();
  command->add_option("--entry", options->entry, "look in this entry; default: the first that has the value");
  options->spread.add_layouts(*command);
  command->callback([=, &streams, &action] {
    action = [=, &streams] {
      Status status = run_why(*options, streams);
      return status.ok() ? 0 : finish(std::move(status.errors()), streams);
    };
  });
}

}  // namespace nabla::cli
