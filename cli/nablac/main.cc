// nablac: the compiler's command line.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/nablac/commands.h"

namespace nabla::cli {

int report(const Status& status) {
  if (status.ok()) return 0;
  std::fputs(to_string(status.errors()).c_str(), stderr);
  return 1;
}

}  // namespace nabla::cli

int main(int argc, char** argv) {
  CLI::App app{"nablac compiles traced programs ahead of time."};
  app.require_subcommand(1);
  int exit_code = 0;
  nabla::cli::add_compile(app, exit_code);
  nabla::cli::add_inspect(app, exit_code);
  nabla::cli::add_tune(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  return exit_code;
}
