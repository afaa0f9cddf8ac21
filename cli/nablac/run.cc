// `nablac run`: a module under the reference interpreter.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <fmt/ranges.h>
#include <iostream>

#include "cli/driver/report_text.h"
#include "cli/exit_codes.h"
#include "cli/nablac/commands.h"
#include "cli/validators.h"
#include "ir/module.h"
#include "passes/pass_manager.h"
#include "runtime/base/option_error.h"
#include "runtime/base/version.h"

namespace nabla::cli {

int finish(const Status& status, const Streams& streams) {
  if (status.ok()) return 0;
  streams.err << to_string(status.errors());
  return exit_code(status.errors().front().code, false);
}

int report(const Status& status) { return finish(status, {std::cout, std::cerr}); }

std::string summary_of(const ir::Module& module) {
  size_t nodes = 0;
  for (const ir::FunctionPtr& f : module.functions) nodes += f->nodes.size();
  auto count = [](size_t n, const char* what) { return driver::counted(n, what); };
  std::string out = count(module.functions.size(), "function") + ", " + count(nodes, "node");
  if (!module.entries.empty()) out += ", " + count(module.entries.size(), "entry");
  return out + fmt::format(", stage {}", name_of(module.stage));
}

void print_notes(const std::vector<passes::PassReport>& passes, std::ostream& err) {
  for (const std::string& note : ir::notes_of(passes::remarks_of(passes))) err << "note: " << printable(note, "\n") << "\n";
}

int run_nablac(const std::vector<std::string>& args, const Streams& streams) {
  CLI::App app("The compiler of Nabla: modules in, bundles out.", "nablac");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text("nablac"), "Print the versions and exit");
  Action action;
  int exit_code = 0;
  add_compile(app, exit_code);
  add_tune(app, exit_code);
  add_opt(app, streams, action);
  add_inspect(app, streams, action);
  add_convert(app, streams, action);
  add_diff(app, streams, action);
  add_why(app, streams, action);
  add_plan(app, streams, action);
  add_verify(app, streams, action);
  add_sign(app, streams, action);
  add_doc(app, streams, action);
  check_flags(app);
  if (Status values = check_values(args); !values.ok()) return finish(std::move(values), streams);
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    const CLI::App* shown = &app;
    while (!shown->get_subcommands().empty()) shown = shown->get_subcommands().front();
    streams.out << shown->help();
    return 0;
  } catch (const CLI::CallForVersion& e) {
    streams.out << e.what();
    return 0;
  } catch (const CLI::ParseError& e) {
    std::vector<std::string> known;
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(sub->get_name());
    const std::string subcommands = fmt::format("there are {}", fmt::join(known, ", "));
    bool named = !args.empty() && !args[0].starts_with('-');
    if (named && std::find(known.begin(), known.end(), args[0]) == known.end())
      return finish(option_error(subcommands, "unknown subcommand `{}`{}", args[0], did_you_mean(args[0], known)), streams);
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    if (chosen.empty()) return finish(option_error(subcommands, "nablac: {}", e.what()), streams);
    const std::string listed = fmt::format("`nablac {} --help` lists what it takes", chosen[0]->get_name());
    return finish(option_error(listed, "nablac: {}", problem_of(e, *chosen[0], args)), streams);
  }
  return action ? action() : exit_code;
}

}  // namespace nabla::cli
