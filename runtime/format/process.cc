#include "runtime/format/process.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/base/option_error.h"
#include "runtime/format/file.h"

namespace nabla::format {
namespace {

std::string folder_of(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// The folder's real path and the name in it; the path itself where the folder is missing.
std::string place_of(const std::string& named) {
  std::string path = follow_links(named);
  char* folder = ::realpath(folder_of(path).c_str(), nullptr);
  if (folder == nullptr) return path;
  std::string out = std::string(folder) + "/" + path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  std::free(folder);
  return out;
}

// Two names of one file: the same existing file, or the same place where none is yet.
bool same_file(const std::string& a, const std::string& b) {
  struct stat one {
  }, two{};
  bool have_one = ::stat(a.c_str(), &one) == 0, have_two = ::stat(b.c_str(), &two) == 0;
  if (have_one != have_two) return false;
  if (have_one) return S_ISREG(one.st_mode) && one.st_dev == two.st_dev && one.st_ino == two.st_ino;
  return place_of(a) == place_of(b);
}

Status check_output(const NamedFile& output) {
  struct stat info {};
  if (::stat(output.path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return error(Code::kWriteFailed, "{}: `{}` is a folder", output.option, output.path);
    if (!S_ISREG(info.st_mode)) return Ok{};
    if (::access(output.path.c_str(), W_OK) != 0)
      return error(Code::kWriteFailed, "{}: cannot write `{}`: {}", output.option, output.path, std::strerror(errno));
  }
  std::string folder = folder_of(follow_links(output.path));
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return error(Code::kWriteFailed, "{}: cannot write `{}`: folder `{}`: {}", output.option, output.path, folder,
                 std::strerror(errno));
  return Ok{};
}

}  // namespace

void prepare_process(bool outlives_reader) {
  for (int fd : {0, 1, 2})
    if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF) (void)::open("/dev/null", O_RDONLY);  // gets the number fd
  if (outlives_reader) std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

Status flush_stdout() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return Ok{};
  if (errno != 0) return write_failure("standard output", errno);
  Diagnostic d = error(Code::kWriteFailed, "standard output was cut short: what was written to it earlier failed");
  d.help = "look at the disk that it is on, or at the program that reads it";
  return d;
}

constexpr const char* kOwnFile = "give each a file of its own";

Status check_files(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedFile& out = outputs[i];
    if (out.path.empty()) continue;
    for (const NamedFile& in : inputs)
      if (!in.path.empty() && same_file(out.path, in.path))
        return option_error(kOwnFile, "{} `{}` is the file that {} reads", out.option, out.path, in.option);
    for (size_t j = 0; j < i; ++j)
      if (!outputs[j].path.empty() && same_file(out.path, outputs[j].path))
        return option_error(kOwnFile, "{} and {} both write `{}`", outputs[j].option, out.option, out.path);
    (void)NABLA_TRY(check_output(out));
  }
  return Ok{};
}

}  // namespace nabla::format
