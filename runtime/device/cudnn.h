// Convolution by NVIDIA's cuDNN, opened at run time. What is needed of it is declared here, so that no toolkit is
// needed to build. Names, numbers and meanings are those of cudnn_graph.h, cudnn_ops.h and cudnn_cnn.h of cuDNN 9 and
// of the cuDNN API reference; what is used has been the same since 8.2.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/device/gpu_library.h"

namespace nabla::device {

class Cudnn;

/// One problem. `run` takes input, filter, output and workspace. Of the library's algorithms only those are candidates
/// that give the same result in every run, and that round no factor which may not be rounded. An algorithm is its
/// number and the kind of its arithmetic.
class CudnnConvolution final : public GpuLibraryCall {
 public:
  ~CudnnConvolution() override;
  CudnnConvolution(const CudnnConvolution&) = delete;
  CudnnConvolution& operator=(const CudnnConvolution&) = delete;

  Result<std::vector<LibraryAlgorithm>> candidates(int most) const override;
  bool accepts(const LibraryAlgorithm& algorithm) const override;
  void use(const LibraryAlgorithm& algorithm) override;
  bool run(void* const* operands) override;
  /// "convolution f32 forward 64x8x8x1 3x3x1x16 64x6x6x16 stride 1,1 pad 0,0 workspace 33554432"
  std::string key() const override;
  std::vector<int64_t> operand_bytes() const override;
  Diagnostic failure() const override;

 private:
  friend class Cudnn;
  CudnnConvolution(Cudnn& library, ConvolutionSpec spec) : library_(library), spec_(std::move(spec)) {}
  Status describe();
  int arithmetic() const;

  Cudnn& library_;
  ConvolutionSpec spec_;
  void *input_ = nullptr, *filter_ = nullptr, *output_ = nullptr, *convolution_ = nullptr;  ///< descriptors
  int algorithm_ = 0;
  int prepared_ = 0;  ///< the status of `use`
};

class Cudnn {
 public:
  using Spec = ConvolutionSpec;
  /// In bundles, in messages, and what it computes.
  static constexpr const char *kName = "cudnn", *kTitle = "cuDNN", *kProblems = "convolutions";

  /// Opens $NABLA_CUDNN; without it `soname`, then other versions of which the functions are known. The GPU's context
  /// is current, and the stream outlives the object. E0602 when the library is not there, older than `min_version`
  /// ("8.2"), or cannot be used.
  static Result<std::unique_ptr<Cudnn>> open(const std::string& soname, const std::string& min_version,
                                             CudaStream stream);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  /// Descriptors of a problem, for which an algorithm must be chosen before it runs. E0103 for another implementation,
  /// E0602 when the library has no words for it. The object outlives the call.
  Result<std::unique_ptr<CudnnConvolution>> call(const ConvolutionSpec& spec);
  /// "9.28.0"
  const std::string& version() const { return version_; }

  struct Functions;

 private:
  friend class CudnnConvolution;
  Cudnn();
  std::string name_of(int status) const;

  std::unique_ptr<Functions> functions_;
  void* handle_ = nullptr;
  std::string version_;
  int failed_ = 0;  ///< the last status that was no success
};

}  // namespace nabla::device
