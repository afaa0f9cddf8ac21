#include "runtime/exec/memory_limit.h"

#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace nabla::exec {
namespace {

void take(MemoryLimit& least, uint64_t bytes, std::string whose) {
  if (bytes < least.bytes) least = {bytes, std::move(whose)};
}

/// The limits of a group and of those around it.
void take_groups(MemoryLimit& least, const ReadFile& read, const std::string& root, std::string path, const char* file) {
  for (;; path = path.substr(0, path.rfind('/'))) {
    std::optional<std::string> text = read(root + path + "/" + file);
    char* end = nullptr;
    uint64_t bytes = text ? std::strtoull(text->c_str(), &end, 10) : 0;
    if (text && end != text->c_str()) take(least, bytes, "the limit of the control group " + (path.empty() ? "/" : path));
    if (path.empty()) return;
  }
}

std::string mib(uint64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

}  // namespace

MemoryLimit memory_limit(const ReadFile& read) {
  MemoryLimit out;
  std::istringstream memory(read("/proc/meminfo").value_or(""));
  std::string word;
  uint64_t kib = 0;
  if (memory >> word >> kib && word == "MemTotal:") take(out, kib << 10, "the machine's memory");
  // "0::/PATH" is of version 2; "4:memory:/PATH", where the controller may stand in a list, of version 1.
  std::istringstream groups(read("/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",", path = line.substr(second + 1);
    if (path == "/" || path.find("..") != path.npos) path.clear();
    if (controllers == ",,") take_groups(out, read, "/sys/fs/cgroup", path, "memory.max");
    if (controllers.find(",memory,") != controllers.npos) take_groups(out, read, "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
  }
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    take(out, space.rlim_cur, "the limit of its address space (ulimit -v)");
  return out;
}

MemoryLimit memory_limit() {
  return memory_limit([](const std::string& path) -> std::optional<std::string> {
    std::ifstream file(path);
    if (!file) return std::nullopt;
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  });
}

Status check_memory(uint64_t bytes, const std::string& who) {
  MemoryLimit limit = memory_limit();
  if (bytes <= limit.bytes) return Ok{};
  return error(Code::kOutOfMemory, "{} {} of memory, and this process may have {}: {}", who, mib(bytes), mib(limit.bytes), limit.whose);
}

}  // namespace nabla::exec
