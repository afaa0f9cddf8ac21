// Matrix products by NVIDIA's cuBLASLt, opened at run time. What is needed of it is declared here, so that no toolkit
// is needed to build. Names, numbers and meanings are those of cublasLt.h and of the cuBLAS manual.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/device/gpu_library.h"

namespace nabla::device {

class CublasLt;

/// One problem. An algorithm is a cublasLtMatmulAlgo_t. `run` takes a, b, c, bias, workspace and addend.
class CublasLtGemm final : public GpuLibraryCall {
 public:
  ~CublasLtGemm() override;
  CublasLtGemm(const CublasLtGemm&) = delete;
  CublasLtGemm& operator=(const CublasLtGemm&) = delete;

  Result<std::vector<LibraryAlgorithm>> candidates(int most) const override;
  bool accepts(const LibraryAlgorithm& algorithm) const override;
  void use(const LibraryAlgorithm& algorithm) override { algorithm_ = algorithm; }
  bool run(void* const* operands) override;
  /// "gemm bf16 1x64x128x64 nt bias add gelu ld 64,64,128 align 16"
  std::string key() const override;
  std::vector<int64_t> operand_bytes() const override;
  Diagnostic failure() const override;

 private:
  friend class CublasLt;
  CublasLtGemm(CublasLt& library, GemmSpec spec) : library_(library), spec_(std::move(spec)) {}
  Status describe();

  CublasLt& library_;
  GemmSpec spec_;
  void *desc_ = nullptr, *first_ = nullptr, *second_ = nullptr, *result_ = nullptr;
  void* bias_ = nullptr;  ///< that desc_ holds
  LibraryAlgorithm algorithm_ = {};
};

class CublasLt {
 public:
  using Spec = GemmSpec;
  /// In bundles, in messages, and what it computes.
  static constexpr const char *kName = "cublaslt", *kTitle = "cuBLASLt", *kProblems = "matrix products";

  /// Opens $NABLA_CUBLASLT; without it `soname`, then other versions of which the functions are known. The GPU's
  /// context is current, and the stream outlives the object. E0602 when the library is not there, older than
  /// `min_version`
  /// ("12.0"), or cannot be used.
  static Result<std::unique_ptr<CublasLt>> open(const std::string& soname, const std::string& min_version,
                                                CudaStream stream);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  /// Descriptors of a problem, for which an algorithm must be chosen before it runs. E0103 for another implementation,
  /// E0602 when the library refuses it. The object outlives the call.
  Result<std::unique_ptr<CublasLtGemm>> call(const GemmSpec& spec);
  /// "13.1.0"
  const std::string& version() const { return version_; }

  struct Functions;

 private:
  friend class CublasLtGemm;
  CublasLt();
  std::string name_of(int status) const;

  std::unique_ptr<Functions> functions_;
  CudaStream stream_ = nullptr;
  void* handle_ = nullptr;
  std::string version_;
  int failed_ = 0;  ///< the last status that was no success
};

}  // namespace nabla::device
