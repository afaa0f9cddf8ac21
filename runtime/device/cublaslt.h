// Matrix products by NVIDIA's cuBLASLt, opened at run time. What is needed of it is declared here, so that no toolkit
// is needed to build. Names, numbers and meanings are those of cublasLt.h and of the cuBLAS manual.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/device/library_call.h"

namespace nabla::device {

/// cublasLtMatmulAlgo_t: valid for one version of the library.
using GemmAlgorithm = std::array<uint64_t, 8>;

class CublasLt;

/// One problem in a stream. `run` takes a, b, c, bias and workspace, and may be captured into a graph.
class CublasLtGemm final : public LibraryCall {
 public:
  ~CublasLtGemm() override;
  CublasLtGemm(const CublasLtGemm&) = delete;
  CublasLtGemm& operator=(const CublasLtGemm&) = delete;

  /// What the library expects to be fast, best first: at least one, at most `most`. E0602 when there is none.
  Result<std::vector<GemmAlgorithm>> candidates(int most) const;
  /// Does the algorithm compute this problem here, in the workspace that there is?
  bool accepts(const GemmAlgorithm& algorithm) const;
  /// Runs take this algorithm from now on.
  void use(const GemmAlgorithm& algorithm) { algorithm_ = algorithm; }
  bool run(void* const* operands) override;

 private:
  friend class CublasLt;
  CublasLtGemm(CublasLt& library, GemmSpec spec) : library_(library), spec_(std::move(spec)) {}
  Status describe();

  CublasLt& library_;
  GemmSpec spec_;
  void *desc_ = nullptr, *first_ = nullptr, *second_ = nullptr, *result_ = nullptr;
  void* bias_ = nullptr;  ///< that desc_ holds
  GemmAlgorithm algorithm_ = {};
};

class CublasLt {
 public:
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
  Result<std::unique_ptr<CublasLtGemm>> gemm(const GemmSpec& spec);
  /// "13.1.0"
  const std::string& version() const { return version_; }
  /// E0607 for the run that failed last.
  Diagnostic failure() const;

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

/// "gemm bf16 1x64x128x64 nt bias gelu align 16": what an algorithm is chosen for. It begins with the key of tuning
/// files.
std::string problem_key(const GemmSpec& spec);

}  // namespace nabla::device
