#include "runtime/device/cuda_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

namespace nabla::device {
namespace {

// cuGetProcAddress gives a function as this version of CUDA declares it.
constexpr int kVersion = 12000;
constexpr int kParameterVersion = 12040;  // of cuFuncGetParamInfo

constexpr int kMajorAttribute = 75, kMinorAttribute = 76;
constexpr int kBlockSharedAttribute = 97;  // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN

}  // namespace

std::string cuda_version_str(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// Source: NVIDIA, "CUDA Compatibility", the least driver of a major version on Linux.
std::string cuda_driver_str(int version) {
  const char* release = version == 12000 ? " (525 or later)" : version == 13000 ? " (580 or later)" : "";
  return fmt::format("a driver for CUDA {}{}", cuda_version_str(version), release);
}

Result<std::shared_ptr<const CudaDriver>> CudaDriver::open(int needed) {
  const char* chosen = std::getenv("NABLA_CUDA_DRIVER");
  std::string file = chosen != nullptr && *chosen != '\0' ? chosen : "libcuda.so.1";
  // Never closed: the driver keeps threads and handlers of its own.
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return error(Code::kNoGpu, "NVIDIA's driver is not there: {}", ::dlerror());
  auto get_version = reinterpret_cast<int (*)(int*)>(::dlsym(handle, "cuDriverGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != kCudaOk)
    return error(Code::kNoGpu, "{} is no CUDA driver: it tells no version", file);
  using GetProc = int (*)(const char*, void**, int, uint64_t, int*);
  auto get = reinterpret_cast<GetProc>(::dlsym(handle, "cuGetProcAddress_v2"));
  if (version < kVersion || get == nullptr) {
    const int least = std::max(needed, kVersion);
    Diagnostic d = error(Code::kNoGpu, "NVIDIA's driver ({}) is for CUDA {}; at least {} is needed", file, cuda_version_str(version),
                         cuda_version_str(least));
    d.help = "install " + cuda_driver_str(least);
    if (least >= kVersion + 1000)
      d.help += fmt::format(", or {} and compile with NABLA_NVRTC=libnvrtc.so.{}", cuda_driver_str(kVersion), kVersion / 1000);
    return d;
  }
  auto driver = std::make_shared<CudaDriver>();
  driver->version = version;
  std::string missing;
  auto find = [&](auto& member, const char* name, int since) {
    void* address = nullptr;
    int found = 0;
    if (get(name, &address, since, 0, &found) != kCudaOk || found != 0) address = nullptr;
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(address);
    if (address == nullptr && since == kVersion && missing.empty()) missing = name;
  };
#define NABLA_CUDA_FIND(member, name, parameters) find(driver->member, name, kVersion);
  NABLA_CUDA_CALLS(NABLA_CUDA_FIND)
#undef NABLA_CUDA_FIND
  if (version >= kParameterVersion) find(driver->function_parameter, "cuFuncGetParamInfo", kParameterVersion);
  if (!missing.empty())
    return error(Code::kNoGpu, "NVIDIA's driver ({}, CUDA {}) has no {}", file, cuda_version_str(version), missing);
  return std::shared_ptr<const CudaDriver>(std::move(driver));
}

int CudaDriver::end_recording(CudaStream stream, bool keep, CudaGraphExec& ready) const {
  ready = nullptr;
  CudaGraph graph = nullptr;
  int status = capture_end(stream, &graph);
  if (keep && status == kCudaOk) status = graph_instantiate(&ready, graph, 0);
  if (graph != nullptr) (void)graph_destroy(graph);
  if (status != kCudaOk) ready = nullptr;
  return status;
}

std::string CudaDriver::text(int status) const {
  const char *name = nullptr, *text = nullptr;
  if (error_name(status, &name) != kCudaOk || name == nullptr) name = "unknown status";
  if (error_string(status, &text) != kCudaOk || text == nullptr) text = "no text";
  return fmt::format("{} ({}), {}", name, status, text);
}

Diagnostic CudaDriver::failure(std::string_view what, int status) const {
  return error(status == kCudaOutOfMemory ? Code::kOutOfMemory : Code::kGpuFailed, "{}: {}", what, text(status));
}

Result<CudaDevice> CudaDevice::open(int ordinal, int needed) {
  CudaDevice out;
  out.driver = NABLA_TRY(CudaDriver::open(needed));
  const CudaDriver& driver = *out.driver;
  auto refused = [&](int status) {
    return error(Code::kNoGpu, "NVIDIA's driver gives no GPU: {}", driver.text(status));
  };
  int major = 0, minor = 0;
  if (int status = driver.init(0); status != kCudaOk) return refused(status);
  if (int status = driver.device_count(&out.count); status != kCudaOk) return refused(status);
  if (out.count == 0) return refused(kCudaNoDevice);
  char name[128] = "";
  int status = driver.device_get(&out.device, ordinal);
  if (status == kCudaOk) status = driver.device_name(name, sizeof name, out.device);
  if (status == kCudaOk) status = driver.device_attribute(&major, kMajorAttribute, out.device);
  if (status == kCudaOk) status = driver.device_attribute(&minor, kMinorAttribute, out.device);
  if (status == kCudaOk) status = driver.device_attribute(&out.block_shared, kBlockSharedAttribute, out.device);
  if (status != kCudaOk) return refused(status);
  out.capability = major * 10 + minor;
  out.name = name;
  return out;
}

}  // namespace nabla::device
