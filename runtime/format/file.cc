#include "runtime/format/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "runtime/base/text.h"

namespace nabla::format {
namespace {

/// Closes on every path; `release` hands the descriptor over to an explicit, checked close.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  int release() { return std::exchange(fd, -1); }
};

Diagnostic write_error(const std::string& path) { return write_failure(path, errno); }

bool write_all(int fd, Bytes bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::write(fd, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0) errno = ENOSPC;
      return false;
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

Status write_directly(const std::string& path, std::span<const Bytes> pieces) {
  Descriptor file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
  if (file.fd < 0) return write_error(path);
  for (Bytes piece : pieces)
    if (!write_all(file.fd, piece)) return write_error(path);
  if (::close(file.release()) != 0) return write_error(path);
  return Ok{};
}

// What a killed process left of an earlier write of `place`: temporaries whose process is gone and that no process of
// another machine or container, whose numbers mean nothing here, holds locked.
void remove_abandoned(const std::string& place) {
  size_t slash = place.rfind('/');
  std::string folder = slash == std::string::npos ? "./" : place.substr(0, slash + 1);
  std::string name = place.substr(slash == std::string::npos ? 0 : slash + 1) + ".";
  std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  while (const dirent* entry = entries == nullptr ? nullptr : ::readdir(entries.get())) {
    std::string_view other = entry->d_name;
    if (!other.starts_with(name) || !other.ends_with(".tmp") || other.size() <= name.size() + 4) continue;
    pid_t process = 0;
    const char* end = other.data() + other.size() - 4;
    auto [stop, problem] = std::from_chars(other.data() + name.size(), end, process);
    if (problem != std::errc() || stop != end || process <= 0) continue;
    if (::kill(process, 0) == 0 || errno != ESRCH) continue;
    std::string path = folder + entry->d_name;
    Descriptor left{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
    if (left.fd >= 0 && ::flock(left.fd, LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  }
}

// The name is given to a file that had none.
bool link_as(int fd, const std::string& name) {
  std::string open_file = fmt::format("/proc/self/fd/{}", fd);
  ::unlink(name.c_str());
  return ::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

/// What is written, and how. `like`: the file that is replaced, or null.
struct Contents {
  std::span<const Bytes> pieces;
  bool executable;
  const struct stat* like;

  mode_t rights() const { return executable ? 0777 : 0666; }
  bool fill(int fd) const {
    if (like != nullptr) {
      mode_t mode = like->st_mode & 0777;
      if (executable) mode |= (mode & 0444) >> 2;
      if (like->st_uid != ::geteuid() || like->st_gid != ::getegid())
        if (::fchown(fd, like->st_uid, like->st_gid) != 0) errno = 0;  // only root may; the contents matter more
      if (::fchmod(fd, mode) != 0) return false;
    }
    for (Bytes piece : pieces)
      if (!write_all(fd, piece)) return false;
    return ::fsync(fd) == 0;
  }
};

/// Where the file system can, the file has no name before it is whole, so that nothing is left of a process that is killed
/// meanwhile.
bool write_temporary(const std::string& temporary, const Contents& contents) {
  size_t slash = temporary.rfind('/');
  std::string folder = slash == std::string::npos ? "." : temporary.substr(0, slash + 1);
  if (Descriptor file{::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, contents.rights())}; file.fd >= 0) {
    if (!contents.fill(file.fd)) return false;
    if (link_as(file.fd, temporary)) return ::close(file.release()) == 0;
  }
  Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, contents.rights())};
  if (file.fd < 0) return false;
  (void)::flock(file.fd, LOCK_EX | LOCK_NB);
  return contents.fill(file.fd) && ::close(file.release()) == 0;
}

}  // namespace

Result<std::shared_ptr<const FileBytes>> FileBytes::map(const std::string& path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a pipe is refused, not waited for
  if (file.fd < 0) return error(Code::kNotFound, "cannot open `{}`: {}", path, reason_of(errno));
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return error(Code::kReadFailed, "cannot read `{}`: {}", path, std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return error(Code::kNotFound, "`{}` is a folder, not a file", path);
  if (!S_ISREG(info.st_mode)) return error(Code::kNotFound, "`{}` is not a regular file", path);
  auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return std::shared_ptr<const FileBytes>(new FileBytes(nullptr, 0, false));
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) return error(Code::kReadFailed, "cannot map `{}`: {}", path, std::strerror(errno));
  return std::shared_ptr<const FileBytes>(new FileBytes(static_cast<uint8_t*>(data), size, true));
}

std::shared_ptr<const FileBytes> FileBytes::copy_of(Bytes bytes) {
  if (bytes.empty()) return std::shared_ptr<const FileBytes>(new FileBytes(nullptr, 0, false));
  void* data = std::aligned_alloc(64, (bytes.size() + 63) / 64 * 64);
  NABLA_CHECK(data != nullptr, "cannot allocate {} bytes", bytes.size());
  std::memcpy(data, bytes.data(), bytes.size());
  return std::shared_ptr<const FileBytes>(new FileBytes(static_cast<uint8_t*>(data), bytes.size(), false));
}

FileBytes::~FileBytes() {
  if (mapped_) {
    ::munmap(data_, size_);
  } else {
    std::free(data_);
  }
}

Diagnostic write_failure(const std::string& path, int problem) {
  Diagnostic d = error(Code::kWriteFailed, "cannot write `{}`: {}", path, reason_of(problem));
  if (problem == ENOSPC || problem == EDQUOT) d.help = "free space there, or write to another disk";
  if (problem == EFBIG) d.help = "raise the limit on the size of files (ulimit -f), or write to another file system";
  return d;
}

std::string follow_links(const std::string& path) {
  std::string at = path;
  char target[4096];
  for (int links = 0; links < 40; ++links) {  // the limit of the system itself
    ssize_t n = ::readlink(at.c_str(), target, sizeof target);
    if (n <= 0) return at;
    std::string next(target, static_cast<size_t>(n));
    size_t slash = at.rfind('/');
    at = next[0] == '/' || slash == at.npos ? next : at.substr(0, slash + 1) + next;
  }
  return path;
}

Status write_file(const std::string& path, std::span<const Bytes> pieces, bool executable) {
  struct stat info {};
  bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) return error(Code::kWriteFailed, "cannot write `{}`: it is a folder", path);
    return write_directly(path, pieces);
  }
  if (exists && ::access(path.c_str(), W_OK) != 0) return write_error(path);
  std::string place = follow_links(path), temporary = fmt::format("{}.{}.tmp", place, ::getpid());
  remove_abandoned(place);
  if (!write_temporary(temporary, {pieces, executable, exists ? &info : nullptr}) ||
      ::rename(temporary.c_str(), place.c_str()) != 0) {
    Diagnostic failure = write_error(path);
    ::unlink(temporary.c_str());
    return failure;
  }
  return Ok{};
}

Status write_file(const std::string& path, std::string_view text) {
  Bytes piece = as_bytes(text);
  return write_file(path, std::span(&piece, 1));
}

}  // namespace nabla::format
