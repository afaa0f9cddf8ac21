#include "runtime/checkpoint/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include "runtime/format/zip.h"

namespace nabla::checkpoint {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr size_t kDigits = 8;
constexpr int kLockTries = 50;
constexpr size_t kChunk = 256 << 10;

struct Descriptor {
  int fd;
  explicit Descriptor(int f) : fd(f) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Diagnostic cannot(const std::string& path) { return format::write_failure(path, errno); }

bool write_all(int fd, format::Bytes bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::write(fd, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ENOSPC;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

bool sync_folder(const std::string& path) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder.fd >= 0 && (::fsync(folder.fd) == 0 || errno == EINVAL);  // some file systems have nothing to sync
}

std::vector<std::string> names_in(const std::string& dir) {
  std::vector<std::string> out;
  std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(dir.c_str()), ::closedir);
  while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr)
    if (std::string_view name = entry->d_name; name != "." && name != "..") out.emplace_back(name);
  return out;
}

// One exchange of both names; file systems without it get two steps, between which the folder is missing.
bool swap_folders(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  std::string aside = from + ".old.tmp";
  return ::rename(to.c_str(), aside.c_str()) == 0 && ::rename(from.c_str(), to.c_str()) == 0 && ::rename(aside.c_str(), from.c_str()) == 0;
}

}  // namespace

std::string name_of(int64_t step) { return fmt::format("{}{:0{}}", kPrefix, step, kDigits); }

std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || name.size() < kPrefix.size() + kDigits) return std::nullopt;
  int64_t step = 0;
  auto [end, problem] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (problem != std::errc() || step < 0 || name_of(step) != name) return std::nullopt;
  return step;
}

std::string unfinished(int64_t step, uint32_t epoch) {
  return name_of(step) + (epoch == 0 ? "" : fmt::format(".start-{}", epoch)) + ".tmp";
}

Status make_folder(const std::string& dir) {
  for (size_t slash = dir.find('/', 1);; slash = dir.find('/', slash + 1)) {
    std::string part = dir.substr(0, slash);
    if (::mkdir(part.c_str(), 0777) != 0 && errno != EEXIST && slash == dir.npos) return cannot(dir);
    if (slash == dir.npos) break;
  }
  struct stat info {};
  if (::stat(dir.c_str(), &info) != 0) return cannot(dir);
  if (!S_ISDIR(info.st_mode)) return error(Code::kWriteFailed, "cannot write `{}`: it is no folder", dir);
  if (::access(dir.c_str(), W_OK | X_OK) != 0) return cannot(dir);
  return Ok{};
}

Result<FolderLock> FolderLock::take(const std::string& dir) {
  std::string path = dir + "/.lock";
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return cannot(path);
  FolderLock lock(fd);
  int tries = 0;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (++tries == kLockTries) return error(Code::kWriteFailed, "cannot write `{}`: another run writes its checkpoints there", dir);
    ::usleep(100'000);  // a process that was killed may take its time to end
  }
  return lock;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::vector<int64_t>> steps_in(const std::string& dir) {
  struct stat info {};
  if (::stat(dir.c_str(), &info) != 0 && errno == ENOENT) return std::vector<int64_t>{};
  if (::access(dir.c_str(), R_OK | X_OK) != 0) return error(Code::kReadFailed, "cannot read `{}`: {}", dir, std::strerror(errno));
  std::vector<int64_t> out;
  for (const std::string& name : names_in(dir))
    if (std::optional<int64_t> step = step_of(name)) out.push_back(*step);
  std::sort(out.begin(), out.end());
  return out;
}

void remove_unfinished(const std::string& dir) {
  for (const std::string& name : names_in(dir))
    if (name.ends_with(".tmp") && step_of(name.substr(0, name.find('.')))) remove_checkpoint(dir + "/" + name);
}

void remove_checkpoint(const std::string& folder) {
  ::unlink((folder + "/" + kManifest).c_str());
  for (const std::string& name : names_in(folder)) ::unlink((folder + "/" + name).c_str());
  ::rmdir(folder.c_str());
}

std::vector<int64_t> superseded(const std::vector<int64_t>& steps, int64_t written, const Retention& keep) {
  std::vector<int64_t> out;
  auto end = std::upper_bound(steps.begin(), steps.end(), written);
  for (auto at = steps.begin(); at != end; ++at)
    if (end - at > keep.last && (keep.every == 0 || *at % keep.every != 0)) out.push_back(*at);
  return out;
}

Result<File> write_part(const std::string& folder, const std::string& name, std::span<const format::Bytes> pieces) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) return cannot(folder);
  std::string path = folder + "/" + name;
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.fd < 0) return cannot(path);
  File out{name, 0, 0};
  for (format::Bytes piece : pieces) out.size += piece.size();
  if (out.size > 0 && ::fallocate(file.fd, 0, 0, static_cast<off_t>(out.size)) != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
    return cannot(path);
  for (format::Bytes piece : pieces)
    for (size_t at = 0; at < piece.size(); at += kChunk) {  // the checksum of what the caches still have
      format::Bytes chunk = piece.subspan(at, std::min(kChunk, piece.size() - at));
      out.checksum = format::crc32_of(chunk, out.checksum);
      if (!write_all(file.fd, chunk)) return cannot(path);
    }
  if (::fsync(file.fd) != 0) return cannot(path);
  return out;
}

Status commit(const std::string& dir, const std::string& unfinished, const Manifest& manifest) {
  std::string from = dir + "/" + unfinished, to = dir + "/" + name_of(manifest.step), text = manifest.text();
  format::Bytes bytes = format::as_bytes(text);
  (void)NABLA_TRY(write_part(from, kManifest, {&bytes, 1}));
  if (!sync_folder(from)) return cannot(from);
  bool done = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0;
  if (!done && (errno == EINVAL || errno == ENOSYS)) done = ::rename(from.c_str(), to.c_str()) == 0;
  if (!done && (errno == EEXIST || errno == ENOTEMPTY)) {
    if (!swap_folders(from, to)) return cannot(to);
    remove_checkpoint(from);  // what stood there
  } else if (!done) {
    return cannot(to);
  }
  return sync_folder(dir) ? Status(Ok{}) : cannot(dir);
}

}  // namespace nabla::checkpoint
