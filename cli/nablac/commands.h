// The subcommands of nablac, a file each. A command that was chosen leaves its exit code: 0, or 1 after diagnostics.
#pragma once

#include "runtime/base/diagnostic.h"

namespace CLI {
class App;
}

namespace nabla::cli {

void add_compile(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);

/// Prints the diagnostics of a failure to stderr; the exit code.
int report(const Status& status);

}  // namespace nabla::cli
