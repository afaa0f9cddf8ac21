#include "runtime/device/kernel_object.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "runtime/base/text.h"

namespace nabla::device {

namespace {

// The descriptor's file under a name that no other object has had: the loader takes objects of one name for one, and
// numbers of descriptors come again. "/" and "/." are the bits of a count.
std::string fresh_path(int fd) {
  static std::atomic<uint64_t> next{0};
  std::string path = "/proc/self";
  for (uint64_t count = next++; count != 0; count /= 2) path += count % 2 != 0 ? "/." : "/";
  return path + fmt::format("/fd/{}", fd);
}

}  // namespace

Result<std::unique_ptr<KernelObject>> KernelObject::load(std::span<const uint8_t> bytes, const std::string& name) {
  int fd = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (fd < 0) return error(Code::kKernelLoad, "cannot make a memory file for `{}`: {}", name, reason_of(errno));
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
  void* handle = ::dlopen(fresh_path(fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  ::close(fd);  // the mapping stays
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    return error(Code::kKernelLoad, "cannot load `{}`: {}", name, reason ? reason : "no reason");
  }
  return std::unique_ptr<KernelObject>(new KernelObject(handle, name));
}

KernelObject::~KernelObject() { ::dlclose(handle_); }

Result<KernelFunction> KernelObject::find(const std::string& symbol) const {
  void* address = ::dlsym(handle_, symbol.c_str());
  if (address == nullptr) return error(Code::kKernelLoad, "`{}` has no kernel `{}`", name_, symbol);
  return reinterpret_cast<KernelFunction>(address);
}

}  // namespace nabla::device
