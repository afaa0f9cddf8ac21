#include "runtime/device/cudnn.h"

#include <dlfcn.h>

#include <algorithm>
#include <limits>

namespace nabla::device {
namespace {

// cudnnStatus_t, cudnnDataType_t, cudnnTensorFormat_t, cudnnConvolutionMode_t, cudnnDeterminism_t
constexpr int kCudnnOk = 0;
constexpr int kFloat = 0, kHalf = 2, kBfloat16 = 9;
constexpr int kChannelsLast = 1;      // CUDNN_TENSOR_NHWC: of a filter O, taps..., C
constexpr int kCrossCorrelation = 1;  // the filter is not turned round
constexpr int kDeterministic = 1;
// cudnnMathType_t. The default may be tf32 since Ampere; the one with a conversion rounds f32 to f16.
constexpr int kDefaultMath = 0, kTensorMath = 1, kTensorMathWithConversion = 2, kMultiplyAdd = 3;

constexpr int kMostAlgorithms = 16;      // that the library is asked for; it has at most 8 of a kind
constexpr int64_t kLeastAlignment = 16;  // bytes, of operands: kernels for tensor cores take it for granted

/// cudnnConvolutionFwdAlgoPerf_t, and those of the gradients, which have the same members.
struct Perf {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math;
  int reserved[3];
};

int cudnn_type(DType dtype) { return dtype == DType::kF16 ? kHalf : dtype == DType::kBF16 ? kBfloat16 : kFloat; }

bool fits(int64_t x) { return x >= 0 && x <= std::numeric_limits<int>::max(); }

using Ints = std::vector<int>;

/// N, C, spatial..., of something that lies as N, spatial..., C. One spatial dimension becomes two: most of the
/// library's kernels know no other number than two and three.
struct Extents {
  Ints sizes, strides;
  bool fit = true;
};
Extents extents_of(std::vector<int64_t> shape) {
  if (shape.size() == 3) shape.insert(shape.begin() + 1, 1);
  size_t rank = shape.size();
  Extents out{Ints(rank), Ints(rank)};
  int64_t stride = 1;
  for (size_t d = rank; d-- > 0;) {
    size_t at = d == 0 ? 0 : d == rank - 1 ? 1 : d + 1;
    out.fit = out.fit && fits(shape[d]) && fits(stride * shape[d]);
    if (!out.fit) return out;
    out.sizes[at] = static_cast<int>(shape[d]), out.strides[at] = static_cast<int>(stride);
    stride *= shape[d];
  }
  return out;
}

/// O first: the spec's shape is taps..., C/groups, O.
std::vector<int64_t> filter_shape_of(const ConvolutionSpec& s) {
  std::vector<int64_t> out = s.filter_shape;
  std::rotate(out.begin(), out.end() - 1, out.end());
  return out;
}

Ints window_of(const std::vector<int64_t>& values, int alone) {
  Ints out;
  if (values.size() == 1) out.push_back(alone);
  for (int64_t v : values) out.push_back(fits(v) ? static_cast<int>(v) : -1);
  return out;
}

}  // namespace

/// member, name, parameters; all give a cudnnStatus_t.
#define NABLA_CUDNN_CALLS(X)                                                                                          \
  X(create, "cudnnCreate", (void** handle))                                                                           \
  X(destroy, "cudnnDestroy", (void* handle))                                                                          \
  X(set_stream, "cudnnSetStream", (void* handle, CudaStream stream))                                                  \
  X(tensor_create, "cudnnCreateTensorDescriptor", (void** desc))                                                      \
  X(tensor_set, "cudnnSetTensorNdDescriptor", (void* desc, int type, int rank, const int* sizes, const int* strides)) \
  X(tensor_destroy, "cudnnDestroyTensorDescriptor", (void* desc))                                                     \
  X(filter_create, "cudnnCreateFilterDescriptor", (void** desc))                                                      \
  X(filter_set, "cudnnSetFilterNdDescriptor", (void* desc, int type, int format, int rank, const int* sizes))         \
  X(filter_destroy, "cudnnDestroyFilterDescriptor", (void* desc))                                                     \
  X(convolution_create, "cudnnCreateConvolutionDescriptor", (void** desc))                                            \
  X(convolution_set, "cudnnSetConvolutionNdDescriptor",                                                               \
    (void* desc, int spatial, const int* padding, const int* strides, const int* dilation, int mode, int compute))    \
  X(convolution_groups, "cudnnSetConvolutionGroupCount", (void* desc, int groups))                                    \
  X(convolution_math, "cudnnSetConvolutionMathType", (void* desc, int math))                                          \
  X(convolution_destroy, "cudnnDestroyConvolutionDescriptor", (void* desc))

struct Cudnn::Functions {
#define NABLA_CUDNN_MEMBER(member, name, parameters) int(*member) parameters = nullptr;
  NABLA_CUDNN_CALLS(NABLA_CUDNN_MEMBER)
#undef NABLA_CUDNN_MEMBER
  size_t (*version)() = nullptr;
  const char* (*status_name)(int status) = nullptr;
  /// By kind. First, second and third are input, filter and output; of an input's gradient filter, output and input; of
  /// a filter's gradient input, output and filter.
  using Find = int (*)(void* handle, void* first, void* second, void* convolution, void* third, int most, int* found,
                       Perf* out);
  using Run = int (*)(void* handle, const void* alpha, void* first, const void* a, void* second, const void* b,
                      void* convolution, int algorithm, void* workspace, size_t workspace_bytes, const void* beta,
                      void* third, void* c);
  Find find[3] = {};
  Run run[3] = {};
};

Cudnn::Cudnn() : functions_(std::make_unique<Functions>()) {}

Result<std::unique_ptr<Cudnn>> Cudnn::open(const std::string& soname, const std::string& min_version,
                                           CudaStream stream) {
  void* library = NABLA_TRY(open_gpu_library(
      kTitle, "NABLA_CUDNN", {soname, "libcudnn.so.9", "libcudnn.so.8", "/usr/local/cuda/lib64/libcudnn.so"}));
  std::unique_ptr<Cudnn> out(new Cudnn());
  Functions& f = *out->functions_;
  const char* missing = nullptr;
  auto find = [&](auto& member, const char* name) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(::dlsym(library, name));
    if (member == nullptr) missing = name;
  };
#define NABLA_CUDNN_FIND(member, name, parameters) find(f.member, name);
  NABLA_CUDNN_CALLS(NABLA_CUDNN_FIND)
#undef NABLA_CUDNN_FIND
  constexpr const char* kFind[] = {"cudnnGetConvolutionForwardAlgorithm_v7",
                                   "cudnnGetConvolutionBackwardDataAlgorithm_v7",
                                   "cudnnGetConvolutionBackwardFilterAlgorithm_v7"};
  constexpr const char* kRun[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData",
                                  "cudnnConvolutionBackwardFilter"};
  for (int kind = 0; kind < 3; ++kind) find(f.find[kind], kFind[kind]), find(f.run[kind], kRun[kind]);
  find(f.version, "cudnnGetVersion");
  find(f.status_name, "cudnnGetErrorString");
  if (missing != nullptr) return unusable(kTitle, fmt::format("it has no function {}", missing));
  // Since 9 a version has two digits for each of its minor parts.
  auto number = static_cast<int>(f.version());
  LibraryVersion version = number >= 90000 ? LibraryVersion{number / 10000, number / 100 % 100, number % 100}
                                           : LibraryVersion{number / 1000, number / 100 % 10, number % 100};
  out->version_ = version.str();
  (void)NABLA_TRY(require_version(kTitle, version, min_version));
  if (int status = f.create(&out->handle_); status != kCudnnOk) {
    out->handle_ = nullptr;
    return unusable(kTitle, fmt::format("it makes no handle: {}", out->name_of(status)));
  }
  if (int status = f.set_stream(out->handle_, stream); status != kCudnnOk)
    return unusable(kTitle, fmt::format("it does not take the stream: {}", out->name_of(status)));
  return out;
}

Cudnn::~Cudnn() {
  if (handle_ != nullptr) functions_->destroy(handle_);
}

std::string Cudnn::name_of(int status) const {
  const char* name = functions_->status_name(status);
  return fmt::format("{} ({})", name != nullptr ? name : "unknown status", status);
}

Result<std::unique_ptr<CudnnConvolution>> Cudnn::call(const ConvolutionSpec& spec) {
  if (spec.implementation != "cudnn")
    return error(Code::kNewerVersion, "the program wants a convolution by `{}`, which this runtime does not know",
                 spec.implementation);
  std::unique_ptr<CudnnConvolution> out(new CudnnConvolution(*this, spec));
  (void)NABLA_TRY(out->describe());
  return out;
}

// Tensor cores for halves, whose products are exact in f32; for f32 only where factors may be rounded.
int CudnnConvolution::arithmetic() const {
  if (spec_.dtype != DType::kF32) return kTensorMath;
  return spec_.tf32 ? kDefaultMath : kMultiplyAdd;
}

Status CudnnConvolution::describe() {
  auto refused = [&](const std::string& why) {
    return error(Code::kMissingLibrary, "cuDNN cannot describe {}: {}", key(), why);
  };
  if (spec_.alignment < kLeastAlignment)
    return refused(
        fmt::format("an operand lies at a multiple of {} bytes, not of {}", spec_.alignment, kLeastAlignment));
  Extents input = extents_of(spec_.input_shape), output = extents_of(spec_.output_shape),
          filter = extents_of(filter_shape_of(spec_));
  if (!input.fit || !output.fit || !filter.fit || !fits(spec_.groups)) return refused("it counts elements in 32 bits");
  const Cudnn::Functions& f = *library_.functions_;
  int status = kCudnnOk, type = cudnn_type(spec_.dtype), rank = static_cast<int>(input.sizes.size());
  auto run = [&](auto function, auto... arguments) {
    if (status == kCudnnOk) status = function(arguments...);
  };
  run(f.tensor_create, &input_), run(f.tensor_set, input_, type, rank, input.sizes.data(), input.strides.data());
  run(f.tensor_create, &output_), run(f.tensor_set, output_, type, rank, output.sizes.data(), output.strides.data());
  run(f.filter_create, &filter_), run(f.filter_set, filter_, type, kChannelsLast, rank, filter.sizes.data());
  Ints padding = window_of(spec_.padding_low, 0), strides = window_of(spec_.strides, 1),
       dilation = window_of(spec_.dilations, 1);
  run(f.convolution_create, &convolution_);
  run(f.convolution_set, convolution_, rank - 2, padding.data(), strides.data(), dilation.data(), kCrossCorrelation,
      kFloat);
  run(f.convolution_groups, convolution_, static_cast<int>(spec_.groups));
  run(f.convolution_math, convolution_, arithmetic());
  if (status == kCudnnOk) return Ok{};
  return refused(library_.name_of(status));
}

CudnnConvolution::~CudnnConvolution() {
  const Cudnn::Functions& f = *library_.functions_;
  for (void* tensor : {input_, output_})
    if (tensor != nullptr) f.tensor_destroy(tensor);
  if (filter_ != nullptr) f.filter_destroy(filter_);
  if (convolution_ != nullptr) f.convolution_destroy(convolution_);
}

namespace {

/// Three things of input, filter and output in the order of a kind's functions.
template <class T>
std::array<T, 3> in_order(ConvolutionKind kind, T input, T filter, T output) {
  if (kind == ConvolutionKind::kInputGrad) return {filter, output, input};
  if (kind == ConvolutionKind::kFilterGrad) return {input, output, filter};
  return {input, filter, output};
}

}  // namespace

Result<std::vector<LibraryAlgorithm>> CudnnConvolution::candidates(int most) const {
  const Cudnn::Functions& f = *library_.functions_;
  auto [first, second, third] = in_order(spec_.kind, input_, filter_, output_);
  Perf found[kMostAlgorithms] = {};
  int count = 0;
  // What a run before has used is part of the description.
  int status = f.convolution_math(convolution_, arithmetic());
  if (status == kCudnnOk)
    status = f.find[static_cast<size_t>(spec_.kind)](library_.handle_, first, second, convolution_, third,
                                                     kMostAlgorithms, &count, found);
  std::vector<LibraryAlgorithm> out;
  for (int i = 0; status == kCudnnOk && i < count && static_cast<int>(out.size()) < most; ++i) {
    const Perf& p = found[i];
    bool exact =
        spec_.dtype != DType::kF32 || spec_.tf32 ? p.math != kTensorMathWithConversion : p.math == kMultiplyAdd;
    if (p.status == kCudnnOk && p.determinism == kDeterministic && exact && p.memory <= spec_.workspace_bytes)
      out.push_back({static_cast<uint64_t>(p.algorithm), static_cast<uint64_t>(p.math)});
  }
  if (!out.empty()) return out;
  return error(Code::kMissingLibrary, "cuDNN {} has no algorithm for {}{}", library_.version(), key(),
               status == kCudnnOk ? "" : ": " + library_.name_of(status));
}

bool CudnnConvolution::accepts(const LibraryAlgorithm& algorithm) const {
  auto all = candidates(kMostAlgorithms);
  return all.ok() && std::find(all->begin(), all->end(), algorithm) != all->end();
}

void CudnnConvolution::use(const LibraryAlgorithm& algorithm) {
  algorithm_ = static_cast<int>(algorithm[0]);
  prepared_ = library_.functions_->convolution_math(convolution_, static_cast<int>(algorithm[1]));
}

bool CudnnConvolution::run(void* const* operands) {
  const Cudnn::Functions& f = *library_.functions_;
  auto [first, second, third] = in_order(spec_.kind, input_, filter_, output_);
  auto [a, b, c] = in_order(spec_.kind, operands[0], operands[1], operands[2]);
  const float one = 1, zero = 0;
  int status = prepared_;
  if (status == kCudnnOk)
    status = f.run[static_cast<size_t>(spec_.kind)](library_.handle_, &one, first, a, second, b, convolution_,
                                                    algorithm_, operands[3], spec_.workspace_bytes, &zero, third, c);
  if (status != kCudnnOk) library_.failed_ = status;
  return status == kCudnnOk;
}

std::string CudnnConvolution::key() const {
  return fmt::format("{} workspace {}", call_key(spec_), spec_.workspace_bytes);
}

std::vector<int64_t> CudnnConvolution::operand_bytes() const {
  std::vector<int64_t> out;
  for (const auto* shape : {&spec_.input_shape, &spec_.filter_shape, &spec_.output_shape}) {
    out.push_back(bytes_of(spec_.dtype));
    for (int64_t extent : *shape) out.back() *= extent;
  }
  out.push_back(static_cast<int64_t>(spec_.workspace_bytes));
  return out;
}

Diagnostic CudnnConvolution::failure() const {
  return error(Code::kGpuFailed, "calling cuDNN: {}", library_.name_of(library_.failed_));
}

}  // namespace nabla::device
