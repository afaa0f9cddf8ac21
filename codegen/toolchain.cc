#include "codegen/toolchain.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "codegen/workspace.h"
#include "runtime/format/sha256.h"

namespace nabla::codegen {

namespace fs = std::filesystem;

std::string cache_directory() {
  if (const char* own = std::getenv("NABLA_CACHE"); own && *own) return own;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return std::string(xdg) + "/nabla";
  if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/nabla";
  return "";
}

std::string digest(const std::string& bytes) {
  return format::sha256_hex({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

// An entry is the digest of its bytes, then the bytes.
std::optional<std::string> find_in_cache(const std::string& folder, const std::string& name) {
  fs::path path = fs::path(folder) / name;
  std::error_code ec;
  if (!fs::is_regular_file(path, ec)) return std::nullopt;  // opening a FIFO would wait for its writer
  std::string all = slurp(path);
  constexpr size_t kDigest = 64;
  if (all.size() <= kDigest) return std::nullopt;
  std::string bytes = all.substr(kDigest);
  if (digest(bytes) != all.substr(0, kDigest)) return std::nullopt;
  return bytes;
}

std::string cache_problem(const std::string& folder) {
  std::error_code ec;
  fs::create_directories(folder, ec);
  if (ec) return ec.message();
  return access(folder.c_str(), W_OK | X_OK) == 0 ? "" : std::strerror(errno);
}

void store_in_cache(const std::string& folder, const std::string& name, const std::string& bytes) {
  static std::atomic<int> next{0};  // threads of one process write beside each other too
  std::error_code ec;
  fs::create_directories(folder, ec);
  fs::path temporary = fs::path(folder) / fmt::format("{}.{}.{}", name, getpid(), next++);
  if (ec || !write_text(temporary, digest(bytes) + bytes).ok()) return void(fs::remove(temporary, ec));
  fs::rename(temporary, fs::path(folder) / name, ec);
}

}  // namespace nabla::codegen
