// nablac diff A B: what differs between two modules.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "cli/nablac/commands.h"
#include "ir/ops/all_ops.h"
#include "ir/serialize.h"

namespace nabla::cli {

void add_diff(CLI::App& app, const Streams& streams, Action& action) {
  struct Options {
    std::string a, b;
    bool locations = false, color = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("diff", "Shows what differs between two modules; exit code 1 when something does");
  command->add_option("A", options->a, "a module")->required();
  command->add_option("B", options->b, "a module")->required();
  command->add_flag("--locations", options->locations, "source locations count too");
  command->add_flag("--color", options->color, "colours, also when the output is no terminal");
  command->callback([=, &streams, &action] {
    action = [=, &streams] {
      Result<ir::Module> a = ir::read_module(options->a, ops::all_ops());
      if (!a.ok()) return std::max(2, finish(std::move(a.errors()), streams));
      Result<ir::Module> b = ir::read_module(options->b, ops::all_ops());
      if (!b.ok()) return std::max(2, finish(std::move(b.errors()), streams));
      std::string text =
          diff_modules(*a, *b, options->a, options->b, options->locations, options->color || streams.color);
      streams.out << text;
      return text.empty() ? 0 : 1;
    };
  });
}

}  // namespace nabla::cli
