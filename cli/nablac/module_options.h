// Options that say what a module becomes: `nablac compile` makes it, and `nablac inspect` shows what would be made.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/driver/compile.h"
#include "cli/nablac/spread_options.h"

namespace nabla::cli {

struct ModuleOptions {
  driver::CompileOptions compile;
  SpreadOptions spread{compile};

  /// All of them but --target, of which commands want different lists.
  void add(CLI::App& command);
  /// The first of them that the line has, "--tf32"; empty: none.
  std::string given() const;

 private:
  void add_code(CLI::App& command);
  void add_collectives(CLI::App& command);
  void add_sizes(CLI::App& command);

  std::vector<const CLI::Option*> added_;
};

}  // namespace nabla::cli
