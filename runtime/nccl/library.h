// NVIDIA's NCCL, opened at run time. What is needed of it is declared here, so that no toolkit is needed to build. Names, numbers
// and meanings are those of nccl.h of NCCL 2.18 and later (abi_test.cc compares them where the header is there).
#pragma once

#include <climits>
#include <cstddef>
#include <memory>
#include <string>

#include "runtime/base/diagnostic.h"
#include "runtime/device/cuda_driver.h"

namespace nabla::nccl {

using Comm = struct CommTag*;  ///< ncclComm_t
struct UniqueId {              ///< ncclUniqueId
  char bytes[128];
};

// ncclResult_t
inline constexpr int kOk = 0, kUnhandledCudaError = 1, kSystemError = 2, kInternalError = 3, kInvalidArgument = 4, kInvalidUsage = 5,
                     kRemoteError = 6, kInProgress = 7;
// ncclDataType_t
inline constexpr int kInt8 = 0, kUint8 = 1, kInt32 = 2, kUint32 = 3, kInt64 = 4, kUint64 = 5, kFloat16 = 6, kFloat32 = 7, kFloat64 = 8,
                     kBfloat16 = 9;
// ncclRedOp_t
inline constexpr int kSum = 0, kProd = 1, kMax = 2, kMin = 3;

/// ncclConfig_t of 2.18. That of later versions is longer and begins so: they read as much as `size` says.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = 0, cga_cluster_size = INT_MIN, min_ctas = INT_MIN, max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

/// member, name, parameters; all give an ncclResult_t.
#define NABLA_NCCL_CALLS(X)                                                                                                       \
  X(get_version, "ncclGetVersion", (int* version))                                                                                \
  X(get_id, "ncclGetUniqueId", (UniqueId * id))                                                                                   \
  X(init, "ncclCommInitRankConfig", (Comm * comm, int ranks, UniqueId id, int rank, Config* config))                              \
  X(async_error, "ncclCommGetAsyncError", (Comm comm, int* error))                                                                \
  X(abort, "ncclCommAbort", (Comm comm))                                                                                          \
  X(finalize, "ncclCommFinalize", (Comm comm))                                                                                    \
  X(destroy, "ncclCommDestroy", (Comm comm))                                                                                      \
  X(all_reduce, "ncclAllReduce",                                                                                                  \
    (const void* from, void* to, size_t count, int type, int op, Comm comm, device::CudaStream stream))                           \
  X(all_gather, "ncclAllGather", (const void* from, void* to, size_t count, int type, Comm comm, device::CudaStream stream))      \
  X(reduce_scatter, "ncclReduceScatter",                                                                                          \
    (const void* from, void* to, size_t count, int type, int op, Comm comm, device::CudaStream stream))                           \
  X(broadcast, "ncclBroadcast",                                                                                                   \
    (const void* from, void* to, size_t count, int type, int root, Comm comm, device::CudaStream stream))                         \
  X(send, "ncclSend", (const void* from, size_t count, int type, int peer, Comm comm, device::CudaStream stream))                 \
  X(recv, "ncclRecv", (void* to, size_t count, int type, int peer, Comm comm, device::CudaStream stream))                         \
  X(group_start, "ncclGroupStart", ())                                                                                            \
  X(group_end, "ncclGroupEnd", ())

struct Library {
#define NABLA_NCCL_MEMBER(member, name, parameters) int(*member) parameters = nullptr;
  NABLA_NCCL_CALLS(NABLA_NCCL_MEMBER)
#undef NABLA_NCCL_MEMBER
  const char* (*error_string)(int status) = nullptr;
  const char* (*last_error)(Comm comm) = nullptr;
  std::string version;  ///< "2.28.9"

  /// Opens $NABLA_NCCL; without it libnccl.so.2 by the loader's rules, in $CUDA_HOME/lib64, or among Python's packages. E0602 when
  /// it is not there, older than 2.18, or lacks a function.
  static Result<std::shared_ptr<const Library>> open();

  /// "unhandled system error (2): socket closed". `comm` may be null.
  std::string text(int status, Comm comm) const;
};

}  // namespace nabla::nccl
