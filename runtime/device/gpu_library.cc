#include "runtime/device/gpu_library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <tuple>

#include "runtime/base/wheels.h"

namespace nabla::device {

Diagnostic unusable(const char* library, const std::string& why) {
  return error(Code::kMissingLibrary, "{} cannot be used: {}", library, why);
}

Result<void*> open_gpu_library(const char* library, const char* variable, const std::vector<std::string>& files) {
  const char* chosen = std::getenv(variable);
  bool named = chosen != nullptr && *chosen != 0;
  std::string why;
  auto opened = [&](const std::string& file) {
    void* out = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* reason = out == nullptr ? ::dlerror() : nullptr;
    if (why.empty() && reason != nullptr) why = reason;
    return out;
  };
  const std::vector<std::string> asked = named ? std::vector<std::string>{chosen} : files;
  for (const std::string& file : asked)
    if (void* out = opened(file); out != nullptr) return out;
  if (named) return unusable(library, why);
  for (const std::string& file : asked) {
    if (file.find('/') != std::string::npos) continue;
    for (const std::string& wheel : files_in_wheels(file))
      if (void* out = opened(wheel); out != nullptr) return out;
  }
  return unusable(library, why);
}

Status require_version(const char* library, const LibraryVersion& version, const std::string& least) {
  int major = 0, minor = 0;
  std::sscanf(least.c_str(), "%d.%d", &major, &minor);
  if (std::tuple(version.major, version.minor) >= std::tuple(major, minor)) return Ok{};
  return unusable(library, fmt::format("it is version {}; needed is {}", version.str(), least));
}

}  // namespace nabla::device
