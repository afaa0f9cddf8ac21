// A libcuda.so.1 for tests: one GPU whose kernels are functions of this machine. cuModuleLoadData takes the real cubin
// or PTX and runs, in its place, $NABLA_FAKE_CUDA/<its sha256>.so (kernels.h). What a program may do wrong gives the
// driver's own errors: wrong directions, accesses out of bounds, use after free or destroy, calls that a capture
// forbids, images for another GPU or a newer driver, launches beyond a kernel's bounds.
// $NABLA_FAKE_CUDA_FAIL="NAME:COUNT[:STATUS]" makes a call, or "kernel NAME", fail; _DEVICES, _CAPABILITY
// ("8.0") and _VERSION ("11080") change what the machine shows. With _CHECKED, objects are those of the emulator's
// checked variant, and what its checker finds is an illegal address.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/format/sha256.h"
#include "tests/cuda/emulator/tensor_map.h"
#include "tests/cuda/fake_driver/state.h"

using namespace nabla::fake_cuda;  // NOLINT: this is its library

namespace {

bool pinned(const void* at, size_t bytes) {
  auto* address = static_cast<char*>(const_cast<void*>(at));
  auto next = state().pinned.upper_bound(address);
  if (next == state().pinned.begin()) return false;
  auto [start, size] = *std::prev(next);
  return static_cast<size_t>(address - start) <= size && bytes <= size - static_cast<size_t>(address - start);
}

struct NamedStatus {
  int status;
  const char *name, *text;
};
constexpr NamedStatus kStatuses[] = {
    {kOk, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kNoBinary, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {kUnsupportedPtx, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
};

int name_of(int status, const char** out, const char* NamedStatus::*member) {
  for (const NamedStatus& row : kStatuses)
    if (row.status == status) return *out = row.*member, kOk;
  return kInvalidValue;
}

/// 10 * major + minor.
int capability() {
  const char* text = std::getenv("NABLA_FAKE_CUDA_CAPABILITY");
  int major = 9, minor = 0;
  if (text != nullptr) std::sscanf(text, "%d.%d", &major, &minor);
  return 10 * major + minor;
}
int version() {
  const char* text = std::getenv("NABLA_FAKE_CUDA_VERSION");
  return text == nullptr ? 13000 : std::atoi(text);
}

/// The object that stands for a module's bytes.
int open_object(const void* image, Module& module) {
  if (int status = read_image(image, capability(), version(), module.image); status != kOk) return status;
  const char* folder = std::getenv("NABLA_FAKE_CUDA");
  if (folder == nullptr) return kInvalidImage;
  std::string hash = nabla::format::sha256_hex({static_cast<const uint8_t*>(image), module.image.bytes});
  std::string path = std::string(folder) + "/" + hash + ".so";
  module.kernels = Kernels::open(path);
  return module.kernels != nullptr ? kOk : kInvalidImage;
}

/// What a launch passes on: a pointer, or a tensor map.
union Argument {
  uint64_t address;
  NbEmuTensorMap map;
};

/// Runs one launch: every argument must point into memory that the device has.
int run_kernel(const Function& function, unsigned blocks, unsigned threads, unsigned shared,
               std::vector<Argument> arguments) {
  if (int wish = injected("kernel " + function.symbol, kIllegalAddress); wish != kOk) return wish;
  std::vector<void*> args;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool map = function.parameters[i] == sizeof(NbEmuTensorMap);
    const uint64_t at = map ? reinterpret_cast<uint64_t>(arguments[i].map.at) : arguments[i].address;
    if (!state().memory.holds(at, 0)) return kIllegalAddress;
    args.push_back(&arguments[i]);
  }
  Memory::Open open(state().memory);
  bool fine = function.kernels->launch(function.symbol, blocks, threads, shared, args, state().machine);
  return fine ? kOk : kIllegalAddress;
}

constexpr int kMostDevices = 64;
int devices() {
  const char* text = std::getenv("NABLA_FAKE_CUDA_DEVICES");
  return text == nullptr ? 1 : std::min(std::atoi(text), kMostDevices);
}
/// A context is the address of a byte, one per GPU.
char contexts[kMostDevices];

/// Bytes of shared memory of a block, by the table of compute capabilities in the CUDA C++ Programming Guide.
int most_shared() {
  switch (capability()) {
    case 75:
      return 64 << 10;
    case 80:
    case 87:
      return 163 << 10;
    case 86:
    case 89:
    case 120:
    case 121:
      return 99 << 10;
    default:
      return 227 << 10;
  }
}

}  // namespace

extern "C" {

/// For tests: how often a call was made, or a kernel ("kernel NAME") ran.
int nb_fake_cuda_count(const char* name) {
  Lock lock;
  return state().calls[name];
}
/// Bytes that all copies of a call have moved, replays of graphs included.
int64_t nb_fake_cuda_bytes(const char* name) {
  Lock lock;
  return state().bytes[name];
}
/// Bytes of pinned memory of the host, and of device memory, that nobody has freed.
int64_t nb_fake_cuda_pinned(void) {
  Lock lock;
  int64_t out = 0;
  for (auto [at, bytes] : state().pinned) out += static_cast<int64_t>(bytes);
  return out;
}
int64_t nb_fake_cuda_device(void) {
  Lock lock;
  return static_cast<int64_t>(state().memory.live_bytes());
}
/// Device allocations that nobody has freed.
int nb_fake_cuda_live(void) {
  Lock lock;
  return static_cast<int>(state().memory.live());
}
/// A new process, as far as counts and faults go; memory that is still allocated stays.
void nb_fake_cuda_reset(void) {
  Lock lock;
  state().calls.clear(), state().bytes.clear(), state().sticky = kOk;
}

// For fakes of libraries that put work of their own into streams.
/// Into the stream, or into what it records, to run as often as it is replayed; it may touch device memory, and gives a
/// CUresult. `release` gets the context when nothing can run it any more.
int nb_fake_cuda_put(void* stream, int (*work)(void*), void* context, void (*release)(void*)) {
  Lock lock;
  std::shared_ptr<void> kept(context, release);
  if (int status = begin("library call"); status != kOk) return status;
  return put(static_cast<Stream*>(stream), [work, kept] {
    Memory::Open open(state().memory);
    return work(kept.get());
  });
}
/// The same once `ready` gives CUDA_SUCCESS; it is asked again while it gives CUDA_ERROR_NOT_READY, and touches no device memory.
int nb_fake_cuda_put_when(void* stream, int (*ready)(void*), int (*work)(void*), void* context, void (*release)(void*)) {
  Lock lock;
  std::shared_ptr<void> kept(context, release);
  if (int status = begin("library call"); status != kOk) return status;
  Work then = [work, kept] {
    Memory::Open open(state().memory);
    return work(kept.get());
  };
  return put(static_cast<Stream*>(stream), {then, nullptr, nullptr, [ready, kept] { return ready(kept.get()); }});
}
/// Does the stream record?
int nb_fake_cuda_capturing(void* stream) {
  Lock lock;
  return known(state().streams, static_cast<Stream*>(stream)) && static_cast<Stream*>(stream)->capture ? 1 : 0;
}
/// Lets every stream do what it can, as time would.
int nb_fake_cuda_go_on(void) {
  Lock lock;
  std::vector<Stream*> all(state().streams.begin(), state().streams.end());
  for (Graph* exec : state().execs)
    for (auto& s : exec->streams) all.push_back(s.get());
  for (Stream* s : all)
    while (!s->queue.empty() && advance(*s)) {
    }
  return kOk;
}
/// Is all of it inside one live allocation?
int nb_fake_cuda_holds(uint64_t address, uint64_t bytes) {
  Lock lock;
  return state().memory.holds(address, bytes) ? 1 : 0;
}
/// May this thread use the GPU?
int nb_fake_cuda_ready(void) {
  Lock lock;
  return state().initialized && state().contexts > 0 && current() ? 1 : 0;
}
/// Which one that is.
int nb_fake_cuda_ordinal(void) { return ordinal(); }

int cuInit(unsigned) {
  Lock lock;
  if (int wish = injected("cuInit", kNoDevice); wish != kOk) return wish;
  if (devices() == 0) return kNoDevice;
  state().initialized = true;
  return kOk;
}
int cuDriverGetVersion(int* out) { return *out = version(), kOk; }
int cuGetErrorName(int status, const char** out) { return name_of(status, out, &NamedStatus::name); }
int cuGetErrorString(int status, const char** out) { return name_of(status, out, &NamedStatus::text); }

int cuDeviceGetCount(int* count) {
  Lock lock;
  return *count = devices(), begin("cuDeviceGetCount", kNoDevice, false);
}
int cuDeviceGet(int* device, int ordinal) {
  Lock lock;
  *device = ordinal;
  return ordinal >= 0 && ordinal < devices() ? begin("cuDeviceGet", kInvalidValue, false) : kInvalidValue;
}
int cuDeviceGetName(char* name, int length, int device) {
  Lock lock;
  std::snprintf(name, static_cast<size_t>(length), device == 0 ? "Fake GPU" : "Fake GPU %d", device);
  return begin("cuDeviceGetName", kInvalidValue, false);
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  Lock lock;
  if (attribute != 75 && attribute != 76 && attribute != 97) return kInvalidValue;
  *value = attribute == 97 ? most_shared() : attribute == 75 ? capability() / 10 : capability() % 10;
  return begin("cuDeviceGetAttribute", kInvalidValue, false);
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  Lock lock;
  if (int status = begin("cuDevicePrimaryCtxRetain", kOutOfMemory, false); status != kOk) return status;
  if (device < 0 || device >= devices()) return kInvalidValue;
  ++state().contexts;
  return *context = &contexts[device], kOk;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  Lock lock;
  if (state().contexts == 0) return kInvalidContext;
  // Memory stays, so that a test sees what nobody freed; and what a kernel broke stays broken until the process ends.
  --state().contexts;
  return kOk;
}
int cuCtxSetCurrent(void* context) {
  Lock lock;
  if (int status = begin("cuCtxSetCurrent", kInvalidContext, false); status != kOk) return status;
  current() = context != nullptr;
  if (current()) ordinal() = static_cast<int>(static_cast<char*>(context) - contexts);
  return kOk;
}

int cuMemGetInfo_v2(size_t* free, size_t* total) {
  Lock lock;
  *total = Memory::kReserved;
  *free = *total - state().memory.live_bytes();
  return begin("cuMemGetInfo");
}
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  Lock lock;
  if (int status = begin("cuMemAlloc", kOutOfMemory); status != kOk) return status;
  if (int status = forbid_in_capture(); status != kOk) return status;
  if (int status = state().memory.allocate(bytes, *address); status != kOk) return status;
  state().machine.adopt(reinterpret_cast<void*>(*address), static_cast<int64_t>(bytes),
                        "allocation " + std::to_string(state().calls["cuMemAlloc"]));
  return kOk;
}
int cuMemFree_v2(uint64_t address) {
  Lock lock;
  if (int status = begin("cuMemFree"); status != kOk) return status;
  if (int status = forbid_in_capture(); status != kOk) return status;
  for (Stream* stream : std::set(state().streams))  // freeing waits for the GPU
    if (known(state().streams, stream) && stream->ordinal == ordinal()) drain(*stream);
  state().machine.release(reinterpret_cast<void*>(address));
  return state().memory.release(address);
}
int cuMemHostAlloc(void** out, size_t bytes, unsigned) {
  Lock lock;
  if (int status = begin("cuMemHostAlloc", kOutOfMemory); status != kOk) return status;
  if (int status = forbid_in_capture(); status != kOk) return status;
  auto* data = static_cast<char*>(std::malloc(bytes));
  state().pinned[data] = bytes;
  return *out = data, kOk;
}
int cuMemFreeHost(void* address) {
  Lock lock;
  if (state().pinned.erase(static_cast<char*>(address)) == 0) return kInvalidValue;
  return std::free(address), kOk;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, Stream* stream) {
  Lock lock;
  if (int status = begin("cuMemcpyHtoDAsync"); status != kOk) return status;
  if (state().memory.mine(reinterpret_cast<uint64_t>(from)) || !state().memory.holds(to, bytes)) return kInvalidValue;
  auto copy = [=](const void* source) {
    if (!state().memory.holds(to, bytes)) return kIllegalAddress;
    Memory::Open open(state().memory);
    std::memcpy(reinterpret_cast<void*>(to), source, bytes);
    state().bytes["cuMemcpyHtoDAsync"] += static_cast<int64_t>(bytes);
    return state().machine.note_written(reinterpret_cast<void*>(to), static_cast<int64_t>(bytes)), kOk;
  };
  if (pinned(from, bytes)) return put(stream, [=] { return copy(from); });
  // Other memory is read before the call returns.
  auto kept =
      std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  return put(stream, [=] { return copy(kept->data()); });
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, Stream* stream) {
  Lock lock;
  if (int status = begin("cuMemcpyDtoHAsync"); status != kOk) return status;
  if (state().memory.mine(reinterpret_cast<uint64_t>(to)) || !state().memory.holds(from, bytes)) return kInvalidValue;
  return put(stream, [=] {
    if (!state().memory.holds(from, bytes)) return kIllegalAddress;
    Memory::Open open(state().memory);
    state().bytes["cuMemcpyDtoHAsync"] += static_cast<int64_t>(bytes);
    return std::memcpy(to, reinterpret_cast<void*>(from), bytes), kOk;
  });
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, Stream* stream) {
  Lock lock;
  if (int status = begin("cuMemcpyDtoDAsync"); status != kOk) return status;
  if (!state().memory.holds(to, bytes) || !state().memory.holds(from, bytes)) return kInvalidValue;
  return put(stream, [=] {
    if (!state().memory.holds(to, bytes) || !state().memory.holds(from, bytes)) return kIllegalAddress;
    Memory::Open open(state().memory);
    auto *target = reinterpret_cast<void*>(to), *source = reinterpret_cast<void*>(from);
    std::memmove(target, source, bytes);
    return state().machine.note_copied(target, source, static_cast<int64_t>(bytes)), kOk;
  });
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, Stream* stream) {
  Lock lock;
  if (int status = begin("cuMemsetD8Async"); status != kOk) return status;
  if (!state().memory.holds(to, bytes)) return kInvalidValue;
  return put(stream, [=] {
    Memory::Open open(state().memory);
    std::memset(reinterpret_cast<void*>(to), value, bytes);
    return state().machine.note_written(reinterpret_cast<void*>(to), static_cast<int64_t>(bytes)), kOk;
  });
}

int cuModuleLoadData(Module** out, const void* image) {
  Lock lock;
  if (int status = begin("cuModuleLoadData", kInvalidImage); status != kOk) return status;
  if (int status = forbid_in_capture(); status != kOk) return status;
  auto module = std::make_unique<Module>();
  if (int status = open_object(image, *module); status != kOk) return status;
  state().modules.insert(module.get());
  return *out = module.release(), kOk;
}
int cuModuleUnload(Module* module) {
  Lock lock;
  if (state().modules.erase(module) == 0) return kInvalidHandle;
  for (auto& [name, function] : module->functions) state().functions.erase(function.get());
  delete module;
  return kOk;
}
int cuModuleGetFunction(Function** out, Module* module, const char* name) {
  Lock lock;
  if (int status = begin("cuModuleGetFunction", kNotFound); status != kOk) return status;
  if (!known(state().modules, module)) return kInvalidHandle;
  const std::optional<std::vector<size_t>> parameters = module->kernels->parameters(name);
  if (!parameters) return kNotFound;
  std::unique_ptr<Function>& function = module->functions[name];
  if (function == nullptr) {
    function.reset(new Function{module->kernels.get(), name, *parameters});
    function->static_shared = module->kernels->static_shared(name);
    if (auto found = module->image.kernels.find(name); found != module->image.kernels.end()) {
      const nabla::codegen::CubinKernel& k = found->second;
      if (k.max_threads > 0) function->most_threads = static_cast<unsigned>(k.max_threads);
      function->registers = static_cast<unsigned>(k.registers);
      function->static_shared = static_cast<unsigned>(k.static_shared_bytes);
    }
    function->max_dynamic_shared = (48 << 10) - function->static_shared;
  }
  state().functions.insert(function.get());
  return *out = function.get(), kOk;
}
int cuFuncSetAttribute(Function* function, int attribute, int value) {
  Lock lock;
  if (int status = begin("cuFuncSetAttribute"); status != kOk) return status;
  if (!known(state().functions, function) || attribute != 8 || value < 0) return kInvalidValue;
  if (static_cast<int>(function->static_shared) + value > most_shared()) return kInvalidValue;
  function->max_dynamic_shared = static_cast<unsigned>(value);
  return kOk;
}
int cuFuncGetAttribute(int* value, int attribute, Function* function) {
  Lock lock;
  if (int status = begin("cuFuncGetAttribute"); status != kOk) return status;
  if (!known(state().functions, function) || attribute != 1) return kInvalidValue;
  return *value = static_cast<int>(function->static_shared), kOk;
}
int cuTensorMapEncodeTiled(NbEmuTensorMap* out, int data_type, uint32_t rank, uint64_t address, const uint64_t* sizes,
                           const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides, int interleave,
                           int swizzle, int l2_promotion, int fill) {
  Lock lock;
  if (int status = begin("cuTensorMapEncodeTiled"); status != kOk) return status;
  const nabla::emulator::TensorMapRequest request{data_type, rank, reinterpret_cast<void*>(address), sizes, strides, box,
                                                  element_strides, interleave, swizzle, l2_promotion, fill};
  const char* wrong = capability() < 90 ? "a chip before sm_90 has no copy engine" : nabla::emulator::make_tensor_map(request, *out);
  if (wrong == nullptr) return kOk;
  std::fprintf(stderr, "fake libcuda: cuTensorMapEncodeTiled: %s\n", wrong);
  return kInvalidValue;
}
int cuFuncGetParamInfo(Function* function, size_t index, size_t* offset, size_t* bytes) {
  Lock lock;
  if (!known(state().functions, function)) return kInvalidHandle;
  const std::vector<size_t>& all = function->parameters;
  if (index >= all.size()) return kInvalidValue;
  auto begin = [&](size_t after, size_t size) { return size > 8 ? (after + 63) / 64 * 64 : after; };  // maps at multiples of 64
  size_t end = 0;
  for (size_t i = 0; i < index; ++i) end = begin(end, all[i]) + all[i];
  *offset = begin(end, all[index]), *bytes = all[index];
  return kOk;
}
int cuLaunchKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, Stream* stream, void** parameters, void** extra) {
  Lock lock;
  if (int status = begin("cuLaunchKernel"); status != kOk) return status;
  if (!known(state().functions, function)) return kInvalidHandle;
  bool fits = gx >= 1 && gx <= 0x7fffffff && gy == 1 && gz == 1 && bx >= 1 && bx <= 1024 && by == 1 && bz == 1 &&
              shared <= function->max_dynamic_shared && extra == nullptr;
  if (!fits || bx > function->most_threads) return kInvalidValue;
  // A warp's registers come in units of 256, of the 65,536 of a multiprocessor.
  if ((function->registers * 32 + 255) / 256 * 256 * ((bx + 31) / 32) > 65536) return kOutOfResources;
  std::vector<Argument> arguments(function->parameters.size());  // read now, as a driver does
  for (size_t i = 0; i < arguments.size(); ++i) std::memcpy(&arguments[i], parameters[i], function->parameters[i]);
  return put(stream, [=] { return run_kernel(*function, gx, bx, shared, arguments); });
}

// Streams, events and graphs are in streams.cc.
int cuGetProcAddress_v2(const char* symbol, void** out, int version, uint64_t, int* found) {
  *out = nullptr;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&cuGetProcAddress_v2), &info) == 0) return kNotFound;
  void* library = ::dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return kNotFound;
  *out = ::dlsym(library, (std::string(symbol) + "_v2").c_str());
  if (*out == nullptr) *out = ::dlsym(library, symbol);
  ::dlclose(library);
  if (std::strcmp(symbol, "cuFuncGetParamInfo") == 0 && version < 12040) *out = nullptr;
  if (found != nullptr) *found = *out == nullptr ? 1 : 0;
  return *out == nullptr ? kNotFound : kOk;
}

}  // extern "C"
