#include "runtime/base/system.h"

#include <sys/resource.h>

#include <cerrno>
#include <system_error>

#include "runtime/base/option_name.h"
#include "runtime/base/text.h"

namespace nabla {

void raise_open_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &files);
}

Diagnostic refused_by_system(const std::string& what, int problem) {
  Diagnostic d = error(Code::kOutOfMemory, "{} cannot be had: {}", what, reason_of(problem));
  if (problem == EMFILE) d.help = "raise the hard limit of open files (ulimit -Hn), which nabla-run takes by itself";
  if (problem == ENFILE) d.help = "close other programs, or raise the limit of the machine";
  if (problem == EAGAIN)
    d.help = fmt::format("raise the limit of processes (ulimit -u; in a container pids.max), or use fewer {}", OptionName{"threads"});
  return d;
}

Status start_thread(std::thread& to, const char* purpose, std::function<void()> work) {
  try {
    to = std::thread(std::move(work));
  } catch (const std::system_error& e) {
    return refused_by_system(fmt::format("a thread that {}", purpose), e.code().value());
  }
  return Ok{};
}

}  // namespace nabla
