// NVIDIA's driver, opened at run time: what a program on a GPU needs of libcuda.so.1, declared here, so that neither a
// toolkit nor a GPU is needed to build. Names and meanings are those of the CUDA driver API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/diagnostic.h"

namespace nabla::device {

using CudaAddress = uint64_t;  ///< CUdeviceptr
inline CudaAddress address(const void* at) { return reinterpret_cast<CudaAddress>(at); }
inline constexpr unsigned kNonBlocking = 1;  ///< CU_STREAM_NON_BLOCKING
inline constexpr unsigned kNoTiming = 2;     ///< CU_EVENT_DISABLE_TIMING
using CudaContext = struct CudaContextTag*;
using CudaStream = struct CudaStreamTag*;
using CudaEvent = struct CudaEventTag*;
using CudaModule = struct CudaModuleTag*;
using CudaFunction = struct CudaFunctionTag*;
using CudaGraph = struct CudaGraphTag*;
using CudaGraphExec = struct CudaGraphExecTag*;

/// CUtensorMap: an array as the copy engine of sm_90 walks it, a parameter of kernels.
struct alignas(64) CudaTensorMap {
  unsigned char of_driver[128];
};

// CUresult
inline constexpr int kThreadLocalCapture = 1;  ///< CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
inline constexpr int kCudaOk = 0, kCudaInvalidValue = 1, kCudaOutOfMemory = 2, kCudaNoDevice = 100, kCudaNotReady = 600;

/// member, name, parameters; all give a CUresult.
#define NABLA_CUDA_CALLS(X)                                                                                        \
  X(init, "cuInit", (unsigned flags))                                                                              \
  X(error_name, "cuGetErrorName", (int status, const char** name))                                                 \
  X(error_string, "cuGetErrorString", (int status, const char** text))                                             \
  X(device_count, "cuDeviceGetCount", (int* count))                                                                \
  X(device_get, "cuDeviceGet", (int* device, int ordinal))                                                         \
  X(device_name, "cuDeviceGetName", (char* name, int length, int device))                                          \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, int device))                             \
  X(context_retain, "cuDevicePrimaryCtxRetain", (CudaContext * context, int device))                               \
  X(context_release, "cuDevicePrimaryCtxRelease", (int device))                                                    \
  X(context_set, "cuCtxSetCurrent", (CudaContext context))                                                         \
  X(memory_info, "cuMemGetInfo", (size_t * free, size_t * total))                                                  \
  X(memory_alloc, "cuMemAlloc", (CudaAddress * address, size_t bytes))                                             \
  X(memory_free, "cuMemFree", (CudaAddress address))                                                               \
  X(host_alloc, "cuMemHostAlloc", (void** address, size_t bytes, unsigned flags))                                  \
  X(host_free, "cuMemFreeHost", (void* address))                                                                   \
  X(copy_in, "cuMemcpyHtoDAsync", (CudaAddress to, const void* from, size_t bytes, CudaStream stream))             \
  X(copy_out, "cuMemcpyDtoHAsync", (void* to, CudaAddress from, size_t bytes, CudaStream stream))                  \
  X(copy_within, "cuMemcpyDtoDAsync", (CudaAddress to, CudaAddress from, size_t bytes, CudaStream stream))         \
  X(fill, "cuMemsetD8Async", (CudaAddress to, unsigned char value, size_t bytes, CudaStream stream))               \
  X(stream_create, "cuStreamCreate", (CudaStream * stream, unsigned flags))                                        \
  X(stream_destroy, "cuStreamDestroy", (CudaStream stream))                                                        \
  X(stream_synchronize, "cuStreamSynchronize", (CudaStream stream))                                                \
  X(stream_query, "cuStreamQuery", (CudaStream stream))                                                            \
  X(capture_begin, "cuStreamBeginCapture", (CudaStream stream, int mode))                                          \
  X(capture_end, "cuStreamEndCapture", (CudaStream stream, CudaGraph * graph))                                     \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (CudaGraphExec * exec, CudaGraph graph, unsigned long long)) \
  X(graph_destroy, "cuGraphDestroy", (CudaGraph graph))                                                            \
  X(graph_upload, "cuGraphUpload", (CudaGraphExec exec, CudaStream stream))                                        \
  X(graph_launch, "cuGraphLaunch", (CudaGraphExec exec, CudaStream stream))                                        \
  X(exec_destroy, "cuGraphExecDestroy", (CudaGraphExec exec))                                                      \
  X(event_create, "cuEventCreate", (CudaEvent * event, unsigned flags))                                            \
  X(event_destroy, "cuEventDestroy", (CudaEvent event))                                                            \
  X(event_record, "cuEventRecord", (CudaEvent event, CudaStream stream))                                           \
  X(event_synchronize, "cuEventSynchronize", (CudaEvent event))                                                    \
  X(event_query, "cuEventQuery", (CudaEvent event))                                                                \
  X(stream_wait, "cuStreamWaitEvent", (CudaStream stream, CudaEvent event, unsigned flags))                        \
  X(event_elapsed, "cuEventElapsedTime", (float* milliseconds, CudaEvent start, CudaEvent end))                    \
  X(module_load, "cuModuleLoadData", (CudaModule * module, const void* image))                                     \
  X(module_unload, "cuModuleUnload", (CudaModule module))                                                          \
  X(module_function, "cuModuleGetFunction", (CudaFunction * function, CudaModule module, const char* name))        \
  X(function_set, "cuFuncSetAttribute", (CudaFunction function, int attribute, int value))                         \
  X(function_get, "cuFuncGetAttribute", (int* value, int attribute, CudaFunction function))                        \
  X(tensor_map, "cuTensorMapEncodeTiled",                                                                          \
    (CudaTensorMap * out, int data_type, uint32_t rank, CudaAddress address, const uint64_t* sizes,                \
     const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides, int interleave, int swizzle,   \
     int l2_promotion, int fill))                                                                                  \
  X(launch, "cuLaunchKernel",                                                                                      \
    (CudaFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned shared_bytes, CudaStream stream, void** parameters, void** extra))

/// The driver's functions. `function_parameter` may be null: drivers before 12.4 lack it.
struct CudaDriver {
#define NABLA_CUDA_MEMBER(member, name, parameters) int(*member) parameters = nullptr;
  NABLA_CUDA_CALLS(NABLA_CUDA_MEMBER)
#undef NABLA_CUDA_MEMBER
  int (*function_parameter)(CudaFunction function, size_t index, size_t* offset, size_t* bytes) = nullptr;
  int version = 0;  ///< of CUDA, that the driver is for: 13000 is 13.0

  /// Opens $NABLA_CUDA_DRIVER, else libcuda.so.1. E0605 when it is not there or too old; the
  /// message names the CUDA that a driver must be for: ours, or the later one that `needed` is.
  static Result<std::shared_ptr<const CudaDriver>> open(int needed = 0);

  /// "CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal memory access was encountered"
  std::string text(int status) const;
  /// E0607: "WHAT: <text>"; E0804 when the GPU has no memory left.
  Diagnostic failure(std::string_view what, int status) const;
  Status check(std::string_view what, int status) const {
    if (status == kCudaOk) return Ok{};
    return failure(what, status);
  }

  /// What this thread issues to the stream from here on goes into a graph, until `end_recording`.
  Status begin_recording(CudaStream stream) const {
    return check("recording a graph", capture_begin(stream, kThreadLocalCapture));
  }
  /// Makes what was recorded ready to launch, or with `keep` false throws it away. Null, with the driver's status, when it
  /// cannot be recorded.
  int end_recording(CudaStream stream, bool keep, CudaGraphExec& ready) const;
};

/// "13.0" of 13000.
std::string cuda_version_str(int version);
/// "a driver for CUDA 13.0 (580 or later)" of 13000.
std::string cuda_driver_str(int version);

/// A GPU that the driver shows.
struct CudaDevice {
  std::shared_ptr<const CudaDriver> driver;
  int device = 0;      ///< CUdevice
  int count = 1;       ///< GPUs that the driver shows
  int capability = 0;  ///< 90: 9.0
  int block_shared = 0;  ///< most bytes of shared memory that a block may have
  std::string name;    ///< "NVIDIA H100 80GB HBM3"

  /// The first, or another of `count`. E0605 without a driver or a GPU; `needed` as of CudaDriver::open.
  static Result<CudaDevice> open(int ordinal = 0, int needed = 0);
};

}  // namespace nabla::device
