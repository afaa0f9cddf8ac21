#include "runtime/device/kernel_object.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace nabla::device {

Result<std::unique_ptr<KernelObject>> KernelObject::load(std::span<const uint8_t> bytes, const std::string& name) {
  int fd = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (fd < 0) return error(Code::kKernelLoad, "cannot make a memory file for `{}`: {}", name, std::strerror(errno));
  while (!bytes.empty()) {
    ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      Diagnostic failure = error(Code::kKernelLoad, "cannot copy `{}` to memory: {}", name, std::strerror(errno));
      ::close(fd);
      return failure;
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  void* handle = ::dlopen(fmt::format("/proc/self/fd/{}", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    ::close(fd);
    return error(Code::kKernelLoad, "cannot load `{}`: {}", name, reason ? reason : "no reason");
  }
  return std::unique_ptr<KernelObject>(new KernelObject(handle, name, fd));
}

KernelObject::~KernelObject() {
  ::dlclose(handle_);
  ::close(fd_);
}

Result<KernelFunction> KernelObject::find(const std::string& symbol) const {
  void* address = ::dlsym(handle_, symbol.c_str());
  if (address == nullptr) return error(Code::kKernelLoad, "`{}` has no kernel `{}`", name_, symbol);
  return reinterpret_cast<KernelFunction>(address);
}

}  // namespace nabla::device
