#include "runtime/nccl/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "runtime/device/gpu_library.h"

namespace nabla::nccl {
namespace {

constexpr const char *kTitle = "NCCL", *kSoname = "libnccl.so.2", *kLeast = "2.18";

// Since 2.9 a version is 2.18.5 -> 21805, before it was 2.8.4 -> 2804.
device::LibraryVersion version_of(int code) {
  if (code < 10000) return {code / 1000, code % 1000 / 100, code % 100};
  return {code / 10000, code % 10000 / 100, code % 100};
}

Result<std::shared_ptr<const Library>> opened() {
  std::vector<std::string> files{kSoname};
  const char* home = std::getenv("CUDA_HOME");
  if (home != nullptr && *home != 0) files.push_back(fmt::format("{}/lib64/{}", home, kSoname));
  void* handle = NABLA_TRY(device::open_gpu_library(kTitle, "NABLA_NCCL", files));
  auto out = std::make_shared<Library>();
  std::string missing;
  auto find = [&](auto& member, const char* name) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(::dlsym(handle, name));
    if (member == nullptr && missing.empty()) missing = name;
  };
  find(out->get_version, "ncclGetVersion");
  int code = 0;
  if (out->get_version == nullptr || out->get_version(&code) != kOk) return device::unusable(kTitle, "it tells no version");
  device::LibraryVersion version = version_of(code);
  (void)NABLA_TRY(device::require_version(kTitle, version, kLeast));
#define NABLA_NCCL_FIND(member, name, parameters) find(out->member, name);
  NABLA_NCCL_CALLS(NABLA_NCCL_FIND)
#undef NABLA_NCCL_FIND
  find(out->error_string, "ncclGetErrorString");
  find(out->last_error, "ncclGetLastError");
  if (!missing.empty()) return device::unusable(kTitle, fmt::format("version {} has no {}", version.str(), missing));
  out->version = version.str();
  return std::shared_ptr<const Library>(std::move(out));
}

}  // namespace

Result<std::shared_ptr<const Library>> Library::open() {
  Result<std::shared_ptr<const Library>> out = opened();
  // No bundle names it: it is needed for how the bundle is run.
  if (!out.ok())
    out.errors().front().help = "install NCCL (pip install nvidia-nccl-cu13), or set NABLA_NCCL to its file; --engine mpi needs none";
  return out;
}

std::string Library::text(int status, Comm comm) const {
  const char *name = error_string(status), *last = last_error(comm);
  std::string out = fmt::format("{} ({})", name == nullptr ? "unknown status" : name, status);
  return last == nullptr || *last == 0 ? out : fmt::format("{}: {}", out, last);
}

}  // namespace nabla::nccl
