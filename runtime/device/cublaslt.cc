#include "runtime/device/cublaslt.h"

#include <dlfcn.h>

#include <algorithm>

namespace nabla::device {
namespace {

// cublasStatus_t, cublasComputeType_t, cudaDataType_t, cublasOperation_t
constexpr int kOk = 0;
constexpr int kCompute32 = 68, kCompute64 = 70, kComputeTf32 = 77;
constexpr int kReal32 = 0, kReal64 = 1, kReal16 = 2, kRealB16 = 14, kRealE4m3 = 28, kRealE5m2 = 29;
constexpr int32_t kTranspose = 1;
// cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t, cublasLtMatmulPreferenceAttributes_t
constexpr int kTransposeFirst = 3, kTransposeSecond = 4, kEpilogue = 7, kBias = 8;
constexpr int kBatchCount = 5, kBatchStride = 6;
constexpr int kMaxWorkspace = 1, kReductions = 3, kFirstAlignment = 5, kLastAlignment = 8;
// cublasLtEpilogue_t; kWithBias is added to the others.
constexpr uint32_t kPlain = 1, kRelu = 2, kWithBias = 4, kGelu = 32;
// cublasLtReductionScheme_t: parts of a sum are added in the type of the computation, never in that of the result.
constexpr uint32_t kSumInComputeType = 2;

/// cublasLtMatmulHeuristicResult_t
struct Candidate {
  LibraryAlgorithm algorithm;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

int real_type(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return kReal64;
    case DType::kF16:
      return kReal16;
    case DType::kBF16:
      return kRealB16;
    case DType::kF8E4M3:
      return kRealE4m3;
    case DType::kF8E5M2:
      return kRealE5m2;
    default:
      return kReal32;
  }
}

}  // namespace

/// member, name, parameters; all give a cublasStatus_t.
#define NABLA_CUBLASLT_CALLS(X)                                                                                        \
  X(create, "cublasLtCreate", (void** handle))                                                                         \
  X(destroy, "cublasLtDestroy", (void* handle))                                                                        \
  X(desc_create, "cublasLtMatmulDescCreate", (void** desc, int compute, int scale))                                    \
  X(desc_destroy, "cublasLtMatmulDescDestroy", (void* desc))                                                           \
  X(desc_set, "cublasLtMatmulDescSetAttribute", (void* desc, int attribute, const void* value, size_t bytes))          \
  X(layout_create, "cublasLtMatrixLayoutCreate",                                                                       \
    (void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading))                                       \
  X(layout_destroy, "cublasLtMatrixLayoutDestroy", (void* layout))                                                     \
  X(layout_set, "cublasLtMatrixLayoutSetAttribute", (void* layout, int attribute, const void* value, size_t bytes))    \
  X(wish_create, "cublasLtMatmulPreferenceCreate", (void** wish))                                                      \
  X(wish_destroy, "cublasLtMatmulPreferenceDestroy", (void* wish))                                                     \
  X(wish_set, "cublasLtMatmulPreferenceSetAttribute", (void* wish, int attribute, const void* value, size_t bytes))    \
  X(heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                                       \
    (void* handle, void* desc, void* a, void* b, void* c, void* d, void* wish, int most, Candidate* out, int* found))  \
  X(check, "cublasLtMatmulAlgoCheck",                                                                                  \
    (void* handle, void* desc, void* a, void* b, void* c, void* d, const LibraryAlgorithm* algorithm, Candidate* out)) \
  X(matmul, "cublasLtMatmul",                                                                                          \
    (void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout,        \
     const void* beta, const void* c, void* c_layout, void* d, void* d_layout, const LibraryAlgorithm* algorithm,      \
     void* workspace, size_t workspace_bytes, CudaStream stream))

struct CublasLt::Functions {
#define NABLA_CUBLASLT_MEMBER(member, name, parameters) int(*member) parameters = nullptr;
  NABLA_CUBLASLT_CALLS(NABLA_CUBLASLT_MEMBER)
#undef NABLA_CUBLASLT_MEMBER
  size_t (*version)() = nullptr;
  const char* (*status_name)(int status) = nullptr;
};

CublasLt::CublasLt() : functions_(std::make_unique<Functions>()) {}

Result<std::unique_ptr<CublasLt>> CublasLt::open(const std::string& soname, const std::string& min_version,
                                                 CudaStream stream) {
  void* library = NABLA_TRY(
      open_gpu_library(kTitle, "NABLA_CUBLASLT",
                       {soname, "libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so"}));
  std::unique_ptr<CublasLt> out(new CublasLt());
  Functions& f = *out->functions_;
  const char* missing = nullptr;
  auto find = [&](auto& member, const char* name) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(::dlsym(library, name));
    if (member == nullptr) missing = name;
  };
#define NABLA_CUBLASLT_FIND(member, name, parameters) find(f.member, name);
  NABLA_CUBLASLT_CALLS(NABLA_CUBLASLT_FIND)
#undef NABLA_CUBLASLT_FIND
  find(f.version, "cublasLtGetVersion");
  find(f.status_name, "cublasLtGetStatusName");
  if (missing != nullptr) return unusable(kTitle, fmt::format("it has no function {}", missing));
  auto number = static_cast<int>(f.version());
  LibraryVersion version = {number / 10000, number / 100 % 100, number % 100};
  out->version_ = version.str();
  (void)NABLA_TRY(require_version(kTitle, version, min_version));
  out->stream_ = stream;
  if (int status = f.create(&out->handle_); status != kOk) {
    out->handle_ = nullptr;
    return unusable(kTitle, fmt::format("it makes no handle: {}", out->name_of(status)));
  }
  return out;
}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) functions_->destroy(handle_);
}

std::string CublasLt::name_of(int status) const {
  const char* name = functions_->status_name(status);
  return fmt::format("{} ({})", name != nullptr ? name : "unknown status", status);
}

Result<std::unique_ptr<CublasLtGemm>> CublasLt::call(const GemmSpec& spec) {
  if (spec.implementation != "cublaslt")
    return error(Code::kNewerVersion, "the program wants a matrix product by `{}`, which this runtime does not know",
                 spec.implementation);
  std::unique_ptr<CublasLtGemm> out(new CublasLtGemm(*this, spec));
  (void)NABLA_TRY(out->describe());
  return out;
}

// The library counts along columns, and what lies row by row is to it the transposed matrix. So it is asked for
// C^T = op(B)^T op(A)^T: B is its first factor and A its second, the transpositions and leading dimensions are those
// that the operands have here, and the bias, one value per column of C, is one per row of C^T, as it wants it. Sums of 8-bit floats
// are moved to f32 now and then as long as nobody asks for fast accumulation; their scales are 1.
Status CublasLtGemm::describe() {
  const CublasLt::Functions& f = *library_.functions_;
  int scale = spec_.dtype == DType::kF64 ? kReal64 : kReal32;
  int compute = spec_.dtype == DType::kF64 ? kCompute64 : spec_.tf32 ? kComputeTf32 : kCompute32;
  int status = kOk;
  auto run = [&](int result) { status = status == kOk ? result : status; };
  auto layout = [&](void*& out, DType type, bool transposed, int64_t rows, int64_t columns, int64_t leading, int64_t stride) {
    if (transposed) std::swap(rows, columns);
    auto count = static_cast<int32_t>(spec_.batch);
    run(f.layout_create(&out, real_type(type), static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), leading));
    if (status != kOk || count == 1) return;
    run(f.layout_set(out, kBatchCount, &count, sizeof count));
    run(f.layout_set(out, kBatchStride, &stride, sizeof stride));
  };
  run(f.desc_create(&desc_, compute, scale));
  layout(first_, spec_.type_b(), spec_.transpose_b, spec_.k, spec_.n, spec_.ldb, spec_.stride_b);
  layout(second_, spec_.dtype, spec_.transpose_a, spec_.m, spec_.k, spec_.lda, spec_.stride_a);
  layout(result_, spec_.type_c(), false, spec_.m, spec_.n, spec_.ldc, spec_.stride_c);
  if (status == kOk && spec_.transpose_b) run(f.desc_set(desc_, kTransposeFirst, &kTranspose, sizeof kTranspose));
  if (status == kOk && spec_.transpose_a) run(f.desc_set(desc_, kTransposeSecond, &kTranspose, sizeof kTranspose));
  uint32_t epilogue = spec_.activation == Activation::kRelu   ? kRelu
                      : spec_.activation == Activation::kGelu ? kGelu
                                                              : 0;
  epilogue |= spec_.bias ? kWithBias : 0;
  if (epilogue == 0) epilogue = kPlain;
  if (status == kOk) run(f.desc_set(desc_, kEpilogue, &epilogue, sizeof epilogue));
  // Not followed before the call: an address that is aligned as the real ones are.
  bias_ = reinterpret_cast<void*>(spec_.alignment);
  if (status == kOk && spec_.bias) run(f.desc_set(desc_, kBias, &bias_, sizeof bias_));
  if (status == kOk) return Ok{};
  return error(Code::kMissingLibrary, "cuBLASLt cannot describe {}: {}", key(), library_.name_of(status));
}

CublasLtGemm::~CublasLtGemm() {
  const CublasLt::Functions& f = *library_.functions_;
  for (void* layout : {first_, second_, result_})
    if (layout != nullptr) f.layout_destroy(layout);
  if (desc_ != nullptr) f.desc_destroy(desc_);
}

Result<std::vector<LibraryAlgorithm>> CublasLtGemm::candidates(int most) const {
  const CublasLt::Functions& f = *library_.functions_;
  std::vector<Candidate> found(static_cast<size_t>(most));
  void* wish = nullptr;
  int count = 0, status = f.wish_create(&wish);
  auto set = [&](int attribute, auto value) {
    if (status == kOk) status = f.wish_set(wish, attribute, &value, sizeof value);
  };
  set(kMaxWorkspace, static_cast<uint64_t>(spec_.workspace_bytes));
  set(kReductions, kSumInComputeType);
  for (int operand = kFirstAlignment; operand <= kLastAlignment; ++operand)
    set(operand, static_cast<uint32_t>(spec_.alignment));
  if (status == kOk)
    status = f.heuristic(library_.handle_, desc_, first_, second_, result_, result_, wish, most, found.data(), &count);
  if (wish != nullptr) f.wish_destroy(wish);
  std::vector<LibraryAlgorithm> out;
  for (int i = 0; status == kOk && i < count; ++i)
    if (found[i].status == kOk && found[i].workspace_bytes <= static_cast<size_t>(spec_.workspace_bytes))
      out.push_back(found[i].algorithm);
  if (!out.empty()) return out;
  return error(Code::kMissingLibrary, "cuBLASLt {} has no algorithm for {}{}", library_.version(), key(),
               status == kOk ? "" : ": " + library_.name_of(status));
}

bool CublasLtGemm::accepts(const LibraryAlgorithm& algorithm) const {
  Candidate out = {};
  int status = library_.functions_->check(library_.handle_, desc_, first_, second_, result_, result_, &algorithm, &out);
  return status == kOk && out.workspace_bytes <= static_cast<size_t>(spec_.workspace_bytes);
}

bool CublasLtGemm::run(void* const* operands) {
  const CublasLt::Functions& f = *library_.functions_;
  auto [a, b, c, bias, workspace] = std::array{operands[0], operands[1], operands[2], operands[3], operands[4]};
  int status = kOk;
  if (spec_.bias && bias != bias_) status = f.desc_set(desc_, kBias, &bias, sizeof bias), bias_ = bias;
  const double factors64[] = {0, 1};
  const float factors32[] = {0, 1};
  auto factor = [&](bool x) -> const void* {
    return spec_.dtype == DType::kF64 ? static_cast<const void*>(factors64 + x) : factors32 + x;
  };
  if (status == kOk)
    status = f.matmul(library_.handle_, desc_, factor(true), b, first_, a, second_, factor(spec_.addend),
                      spec_.addend ? operands[5] : c, result_, c, result_, &algorithm_, workspace,
                      static_cast<size_t>(spec_.workspace_bytes), library_.stream_);
  if (status != kOk) library_.failed_ = status;
  return status == kOk;
}

Diagnostic CublasLtGemm::failure() const {
  return error(Code::kGpuFailed, "calling cuBLASLt: {}", library_.name_of(library_.failed_));
}

std::vector<int64_t> CublasLtGemm::operand_bytes() const {
  const GemmSpec& s = spec_;
  auto matrices = [&](DType type, int64_t rows, int64_t leading, int64_t stride) {
    return ((s.batch - 1) * stride + rows * leading) * bytes_of(type);
  };
  const int64_t result = matrices(s.type_c(), s.m, s.ldc, s.stride_c);
  return {matrices(s.dtype, s.transpose_a ? s.k : s.m, s.lda, s.stride_a),
          matrices(s.type_b(), s.transpose_b ? s.n : s.k, s.ldb, s.stride_b),
          result,
          s.bias ? s.n * bytes_of(s.type_c()) : 0,
          s.workspace_bytes,
          s.addend ? result : 0};
}

std::string CublasLtGemm::key() const {
  const GemmSpec& s = spec_;
  std::string out = s.key();
  out += fmt::format(" ld {},{},{}", s.lda, s.ldb, s.ldc);
  if (s.batch > 1) out += fmt::format(" stride {},{},{}", s.stride_a, s.stride_b, s.stride_c);
  return out + fmt::format(" align {}", s.alignment);
}

}  // namespace nabla::device
