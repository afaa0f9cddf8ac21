#include "codegen/cpu/toolchain_errors.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <regex>
#include <sstream>

#include "codegen/compiler_messages.h"
#include "runtime/base/option_name.h"
#include "runtime/base/text.h"
#include "runtime/format/file.h"

namespace nabla::codegen {
namespace {

// With less free space than this no compiler can finish. Its log may be in another language, and it removes its files when it fails.
// The free space is then the only sign of a full disk.
constexpr uint64_t kLeastRoom = 64 << 10;

bool has_no_room(const std::string& folder) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return false;
  return disk.f_bavail * disk.f_frsize < kLeastRoom || (disk.f_files > 0 && disk.f_favail == 0);
}

// Below these limits of a process no compiler can finish. Its log may then be empty, or quote a failure that no other machine has.
// Returns the errno that fits, or 0.
int limit_below_need() {
  auto below = [](__rlimit_resource resource, rlim_t need) {
    rlimit limit{};
    return ::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < need;
  };
  if (below(RLIMIT_NOFILE, 16)) return EMFILE;
  if (below(RLIMIT_FSIZE, 64 << 10)) return EFBIG;
  return below(RLIMIT_AS, 128 << 20) ? ENOMEM : 0;
}

struct Sign {
  const char* text;
  int problem;
};
constexpr Sign kSigns[] = {{"No space left on device", ENOSPC},
                           {"Disk quota exceeded", EDQUOT},
                           {"File too large", EFBIG},
                           {"File size limit exceeded", EFBIG},
                           {"Too many open files", EMFILE},
                           {"no process could be started", EAGAIN},
                           {"Resource temporarily unavailable", EAGAIN},
                           {"Cannot fork", EAGAIN},
                           {"Cannot allocate memory", ENOMEM},
                           {"virtual memory exhausted", ENOMEM},
                           {"out of memory", ENOMEM},
                           {"Killed signal terminated", ENOMEM},
                           {"signal 9", ENOMEM}};

}  // namespace

std::optional<Diagnostic> short_of(const std::string& log, const std::string& how, const std::string& what,
                                   const std::string& folder) {
  int problem = has_no_room(folder) ? ENOSPC : 0;
  for (const Sign& sign : kSigns)
    if (problem == 0 && (log.find(sign.text) != log.npos || how.find(sign.text) != how.npos)) problem = sign.problem;
  if (problem == 0) problem = limit_below_need();
  if (problem == 0) return std::nullopt;
  std::string compiler = fmt::format("the host compiler ({}) on {}", how, what);
  if (problem == ENOSPC || problem == EDQUOT || problem == EFBIG) {
    Diagnostic d = format::write_failure(folder, problem);
    d.notes.push_back(compiler + " writes there");
    if (problem != EFBIG) d.help = "free space there, or set TMPDIR to a folder on another disk";
    return d;
  }
  Diagnostic d = error(Code::kOutOfMemory, "{} had not what it needs: {}", compiler, std::strerror(problem));
  d.notes = first_lines(log, kMostLogLines);
  const std::string jobs = spelled({"jobs"});
  d.help = problem == ENOMEM ? "close other programs, or raise the limit of memory; fewer " + jobs + " need less"
                             : "raise the limits of processes and open files (ulimit -u, ulimit -n), or use fewer " + jobs;
  return d;
}

Diagnostic refused_ours(const std::string& log, const std::string& how, const std::string& what,
                        const std::string& folder) {
  Diagnostic d = error(Code::kCompilerFailed, "the host compiler ({}) failed on {}", how, what);
  d.notes = first_lines(log, kMostLogLines);
  d.notes.push_back("the generated sources are kept in " + folder);
  return d;
}

std::optional<Diagnostic> missing_symbols(const std::string& log, const std::vector<SourceFile>& sources) {
  static const std::regex kForm(R"((user_\d+\.cc).*undefined reference to [`']([^`']+)')");
  std::istringstream lines(log);
  std::smatch m;
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > 2000 || !std::regex_search(line, m, kForm)) continue;
    auto source = std::find_if(sources.begin(), sources.end(), [&](const SourceFile& s) { return s.name == m[1]; });
    if (source == sources.end() || !source->user) continue;
    Diagnostic d = error(Code::kUserCode, "kernel `{}` uses `{}`, which neither its source nor libc or libm defines",
                         source->user->name, m[2].str());
    d.location = user_location(source->user->text, source->user->text.line);
    d.help = "kernels use no C++ library beyond its headers: no allocation, exceptions, streams or containers";
    return d;
  }
  return std::nullopt;
}

}  // namespace nabla::codegen
