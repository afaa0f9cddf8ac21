#include "runtime/format/content.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "runtime/format/sha256.h"

namespace nabla::format {
namespace {

constexpr uint64_t kWhole = 16 << 20, kEnd = 1 << 20, kBlocks = 64, kBlock = 4 << 10;

/// Appends `bytes` bytes from `at` on. False: they cannot be had.
using Reader = std::function<bool(std::string& to, uint64_t at, uint64_t bytes)>;

bool sample(std::string& to, uint64_t size, const Reader& read) {
  if (size <= kWhole) return read(to, 0, size);
  bool done = read(to, 0, kEnd) && read(to, size - kEnd, kEnd);
  uint64_t apart = (size - 2 * kEnd) / kBlocks;
  for (uint64_t i = 0; i < kBlocks; ++i) done = done && read(to, kEnd + i * apart, kBlock);
  return done;
}

bool append(std::string& to, int fd, uint64_t at, uint64_t bytes) {
  size_t done = to.size();
  to.resize(done + bytes);
  while (done < to.size()) {
    ssize_t n = ::pread(fd, to.data() + done, to.size() - done, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ENODATA;  // somebody cuts it
    if (n <= 0) return false;
    done += static_cast<size_t>(n), at += static_cast<uint64_t>(n);
  }
  return true;
}

std::string words(uint64_t size, const std::string& sampled) {
  return fmt::format("of {} bytes (content {})", size, sha256_hex(as_bytes(sampled)).substr(0, 8));
}

}  // namespace

std::string content_of(Bytes bytes) {
  std::string sampled;
  (void)sample(sampled, bytes.size(), [&](std::string& to, uint64_t at, uint64_t count) {
    to.append(reinterpret_cast<const char*>(bytes.data()) + at, count);
    return true;
  });
  return words(bytes.size(), sampled);
}

std::string content_of_file(const std::string& path) {
  struct stat s {};
  int fd = -1;
  if (::stat(path.c_str(), &s) == 0) {
    if (!S_ISREG(s.st_mode)) return "that is no plain file";  // what is read of a pipe is gone
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  std::string sampled;
  auto size = static_cast<uint64_t>(s.st_size);
  auto part = [&](std::string& to, uint64_t at, uint64_t bytes) { return append(to, fd, at, bytes); };
  bool read = fd >= 0 && sample(sampled, size, part);
  int problem = errno;
  if (fd >= 0) ::close(fd);
  if (!read) return fmt::format("that cannot be read ({})", std::strerror(problem));
  return words(size, sampled);
}

}  // namespace nabla::format
