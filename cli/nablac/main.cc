// nablac: the offline compiler's command line.
#include <unistd.h>

#include <iostream>
#include <new>

#include "cli/nablac/commands.h"
#include "runtime/format/process.h"

int main(int argc, char** argv) {
  nabla::format::prepare_process(false);
  std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  nabla::cli::Streams streams{std::cout, std::cerr, isatty(STDOUT_FILENO) == 1};
  int code = 1;
  try {
    code = nabla::cli::run_nablac(args, streams);
  } catch (const std::bad_alloc&) {
    return nabla::cli::report(nabla::error(nabla::Code::kOutOfMemory, "the compiler ran out of memory"));
  }
  std::cout.flush();
  nabla::Status printed = nabla::format::flush_stdout();
  if (printed.ok() && !std::cout)
    printed = nabla::error(nabla::Code::kWriteFailed, "standard output cannot be written");
  return code == 0 ? nabla::cli::report(printed) : code;
}
