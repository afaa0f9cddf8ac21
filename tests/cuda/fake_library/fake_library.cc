#include "tests/cuda/fake_library/fake_library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace nabla::fake_library {

const Driver* driver() {
  static Driver found;
  if (found.put != nullptr) return &found;
  void* library = ::dlopen(environment("NABLA_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  found.holds = reinterpret_cast<decltype(found.holds)>(::dlsym(library, "nb_fake_cuda_holds"));
  found.ready = reinterpret_cast<decltype(found.ready)>(::dlsym(library, "nb_fake_cuda_ready"));
  found.ordinal = reinterpret_cast<decltype(found.ordinal)>(::dlsym(library, "nb_fake_cuda_ordinal"));
  found.capturing = reinterpret_cast<decltype(found.capturing)>(::dlsym(library, "nb_fake_cuda_capturing"));
  found.go_on = reinterpret_cast<decltype(found.go_on)>(::dlsym(library, "nb_fake_cuda_go_on"));
  found.put_when = reinterpret_cast<decltype(found.put_when)>(::dlsym(library, "nb_fake_cuda_put_when"));
  if (found.holds != nullptr && found.ready != nullptr)
    found.put = reinterpret_cast<decltype(found.put)>(::dlsym(library, "nb_fake_cuda_put"));
  return found.put != nullptr ? &found : nullptr;
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int State::begin(const std::string& call) {
  int count = ++calls[call];
  std::string wish = environment(fail);
  size_t colon = wish.find(':');
  if (colon == wish.npos || wish.substr(0, colon) != call) return 0;
  char* end = nullptr;
  long wanted = std::strtol(wish.c_str() + colon + 1, &end, 10);
  if (wanted != 0 && wanted != count) return 0;
  return *end == ':' ? std::atoi(end + 1) : failed;
}

int State::refuse(const std::string& why) const {
  std::fprintf(stderr, "%s: %s\n", name, why.c_str());
  return invalid;
}

}  // namespace nabla::fake_library
