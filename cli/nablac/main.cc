// nablac: the offline compiler's command line.
#include <unistd.h>

#include <iostream>

#include "cli/nablac/commands.h"

int main(int argc, char** argv) {
  std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  nabla::cli::Streams streams{std::cout, std::cerr, isatty(STDOUT_FILENO) == 1};
  int code = nabla::cli::run_nablac(args, streams);
  std::cout.flush();
  if (!std::cout && code == 0) {
    std::cerr << nabla::error(nabla::Code::kWriteFailed, "standard output cannot be written").str();
    code = 1;
  }
  return code;
}
