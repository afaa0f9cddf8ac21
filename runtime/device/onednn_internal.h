// What the files of the oneDNN provider share: the table of functions and owners of its handles.
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/onednn.h"

namespace nabla::device {

#define NABLA_DNNL_FUNCTIONS(X)                                                                                       \
  X(dnnl_version)                                                                                                     \
  X(dnnl_engine_create) X(dnnl_engine_destroy) X(dnnl_stream_create) X(dnnl_stream_destroy)                           \
      X(dnnl_memory_desc_init_by_strides) X(dnnl_memory_desc_init_by_tag) X(dnnl_memory_desc_get_size)                \
          X(dnnl_memory_desc_equal) X(dnnl_memory_create) X(dnnl_memory_destroy) X(dnnl_memory_set_data_handle)       \
              X(dnnl_primitive_attr_create) X(dnnl_primitive_attr_destroy) X(dnnl_primitive_attr_set_scratchpad_mode) \
                  X(dnnl_primitive_desc_create) X(dnnl_primitive_desc_destroy) X(dnnl_primitive_desc_query_md)        \
                      X(dnnl_primitive_create) X(dnnl_primitive_destroy) X(dnnl_primitive_execute)                    \
                          X(dnnl_reorder_primitive_desc_create) X(dnnl_matmul_desc_init)                              \
                              X(dnnl_dilated_convolution_forward_desc_init)                                           \
                                  X(dnnl_dilated_convolution_backward_data_desc_init)                                 \
                                      X(dnnl_dilated_convolution_backward_weights_desc_init) X(dnnl_sgemm)

/// The opened library. `scratch` grows while calls are prepared and is fixed afterwards.
struct OneDnn::Library {
#define NABLA_DNNL_POINTER(name) decltype(&::name) name = nullptr;
  NABLA_DNNL_FUNCTIONS(NABLA_DNNL_POINTER)
#undef NABLA_DNNL_POINTER
  void (*omp_set_num_threads)(int) = nullptr;  ///< null when the library does not use OpenMP

  explicit Library(ThreadPool& p) : pool(p) {}
  ~Library();
  /// oneDNN must not open threads of its own; OpenMP's count is per thread, so every thread sets it once.
  void be_single_threaded() const;
  /// Makes every thread's scratch at least this large; false when there is not enough memory.
  bool reserve_scratch(size_t bytes);

  void* handle = nullptr;
  ThreadPool& pool;
  dnnl_engine_t engine = nullptr;
  dnnl_primitive_attr_t attr = nullptr;  ///< scratchpads are ours
  std::vector<dnnl_stream_t> streams;    ///< one per thread of the pool
  std::vector<std::unique_ptr<char, void (*)(void*)>> scratch;
  size_t scratch_bytes = 0;
  std::map<GemmSpec, std::unique_ptr<LibraryCall>> gemms;
  std::map<ConvolutionSpec, std::unique_ptr<LibraryCall>> convolutions;
};

/// A primitive description; null after a failure.
struct PrimitiveDesc {
  explicit PrimitiveDesc(const OneDnn::Library& l) : lib(&l) {}
  ~PrimitiveDesc() {
    if (handle != nullptr) lib->dnnl_primitive_desc_destroy(handle);
  }
  PrimitiveDesc(const PrimitiveDesc&) = delete;
  PrimitiveDesc& operator=(const PrimitiveDesc&) = delete;
  const dnnl_memory_desc_t* md(dnnl_query_t what, int index = 0) const {
    return lib->dnnl_primitive_desc_query_md(handle, what, index);
  }
  const OneDnn::Library* lib;
  dnnl_primitive_desc_t handle = nullptr;
};

/// A primitive with one set of memory objects per thread of the pool, so that threads can run it at once.
class Primitive {
 public:
  /// `arguments` are the DNNL_ARG_ numbers, `descs` the memories' descriptions.
  static Result<std::unique_ptr<Primitive>> make(OneDnn::Library& lib, const PrimitiveDesc& desc,
                                                 std::vector<int> arguments, std::vector<dnnl_memory_desc_t> descs);
  ~Primitive();
  /// Runs with one pointer per argument, on thread `thread`.
  bool run(int thread, void* const* pointers);

 private:
  explicit Primitive(OneDnn::Library& lib) : lib_(lib) {}
  OneDnn::Library& lib_;
  dnnl_primitive_t handle_ = nullptr;
  size_t arguments_ = 0;                            ///< without the scratchpad
  std::vector<std::vector<dnnl_exec_arg_t>> args_;  ///< per thread; the scratchpad last
};

Result<std::unique_ptr<LibraryCall>> make_gemm(OneDnn::Library& lib, const GemmSpec& spec);
Result<std::unique_ptr<LibraryCall>> make_convolution(OneDnn::Library& lib, const ConvolutionSpec& spec);

/// The library's element type, or dnnl_data_type_undef.
dnnl_data_type_t dnnl_type(DType dtype);

/// Work with fewer FLOPs than this runs on one thread.
inline constexpr double kMinFlopsPerLaunch = 600e3;

}  // namespace nabla::device
