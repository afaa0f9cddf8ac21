// nabla-run as a function, so that tests can call it.
#pragma once

namespace nabla::cli {

/// Runs the command line. Returns the exit code: 0; 1 after a diagnostic; 2 for a wrong command line.
int nabla_run_main(int argc, const char* const* argv);

}  // namespace nabla::cli
