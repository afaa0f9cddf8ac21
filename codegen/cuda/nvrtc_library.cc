#include "codegen/cuda/nvrtc_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "codegen/toolchain.h"
#include "runtime/base/wheels.h"

namespace nabla::codegen {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
constexpr int kOldest = 12;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The libraries of a folder; where it has none, the name that it should have.
void add_folder(const fs::path& folder, std::vector<std::string>& out) {
  size_t before = out.size();
  for (const char* name : kNames)
    if (is_there(folder / name)) out.push_back((folder / name).string());
  if (out.size() == before) out.push_back((folder / kNames[0]).string());
}

template <class F>
bool find(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  return function != nullptr;
}

bool find_all(void* handle, NvrtcFunctions& f) {
  return find(handle, "nvrtcVersion", f.version) && find(handle, "nvrtcGetNumSupportedArchs", f.count_architectures) &&
         find(handle, "nvrtcGetSupportedArchs", f.architectures) && find(handle, "nvrtcCreateProgram", f.create) &&
         find(handle, "nvrtcCompileProgram", f.compile) && find(handle, "nvrtcGetProgramLogSize", f.log_size) &&
         find(handle, "nvrtcGetProgramLog", f.log) && find(handle, "nvrtcGetCUBINSize", f.cubin_size) &&
         find(handle, "nvrtcGetCUBIN", f.cubin) && find(handle, "nvrtcGetPTXSize", f.ptx_size) &&
         find(handle, "nvrtcGetPTX", f.ptx) && find(handle, "nvrtcDestroyProgram", f.destroy) &&
         find(handle, "nvrtcGetErrorString", f.error_text);
}

// What is wrong with the library, or empty.
std::string inspect(void* handle, NvrtcLibrary& library) {
  if (!find_all(handle, library.call)) return "it lacks functions of NVRTC";
  int count = 0;
  if (library.call.version(&library.major, &library.minor) != 0 || library.call.count_architectures(&count) != 0)
    return "it does not tell its version";
  if (library.major < kOldest) return fmt::format("version {} is older than {}", library.version(), kOldest);
  library.architectures.resize(std::max(count, 0));
  if (library.call.architectures(library.architectures.data()) != 0) return "it does not tell its architectures";
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(library.call.version), &info) && info.dli_fname) library.path = info.dli_fname;
  std::error_code ec;
  auto bytes = fs::file_size(library.path, ec);
  library.identity = fmt::format("nvrtc {} {}", library.version(), ec ? 0 : bytes);
  return "";
}

// NVRTC opens a library beside it by its name alone, which the loader finds only in folders that the machine is set up
// for: not in that of an unpacked wheel. Once it is open, its name finds it.
void open_builtins(const NvrtcLibrary& library) {
  fs::path builtins = fs::path(library.path).parent_path() / ("libnvrtc-builtins.so." + library.version());
  if (is_there(builtins)) dlopen(builtins.c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

std::vector<std::string> nvrtc_candidates() {
  std::vector<std::string> out;
  if (std::string named = variable("NABLA_NVRTC"); !named.empty()) {
    std::error_code ignored;
    if (!fs::is_directory(named, ignored)) return {named};
    add_folder(named, out);
    return out;
  }
  if (std::string cache = cache_directory(); !cache.empty()) add_folder(fs::path(cache) / "nvrtc", out);
  for (const char* name : kNames) out.push_back(name);
  add_folder("/usr/local/cuda/lib64", out);
  for (const char* name : kNames)
    for (std::string& file : files_in_wheels(name)) out.push_back(std::move(file));
  return out;
}

Result<NvrtcLibrary> open_nvrtc(const std::vector<std::string>& candidates) {
  Diagnostic missing = error(Code::kNvrtcMissing, "NVRTC, which compiles CUDA kernels, cannot be opened");
  for (const std::string& path : candidates) {
    NvrtcLibrary library;
    library.path = path;
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::string problem;
    if (handle) {
      problem = inspect(handle, library);
    } else {
      const char* reason = dlerror();
      problem = reason ? reason : "it cannot be opened";
      if (std::string prefix = path + ": "; problem.starts_with(prefix)) problem = problem.substr(prefix.size());
    }
    if (problem.empty()) {
      open_builtins(library);
      return library;
    }
    if (handle) dlclose(handle);
    missing.notes.push_back(fmt::format("tried {}: {}", path, problem));
  }
  return missing;
}

}  // namespace nabla::codegen
