// What the libraries for matrix products have in common: the problem, and a call that is ready to run.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "runtime/base/convolution.h"
#include "runtime/base/dtype.h"
#include "runtime/base/gemm.h"

namespace nabla::device {

using nabla::ConvolutionKind;
using nabla::ConvolutionSpec;

/// A product, and how it is computed.
struct GemmSpec : GemmProblemOf<int64_t> {
  std::string implementation;  ///< "matmul" or "sgemm" of oneDNN, "cublaslt"
  // Of cuBLASLt only, as activation, bias, addend and tf32 are:
  int64_t workspace_bytes = 0;  ///< that the call may use
  int64_t alignment = 256;      ///< of every operand's address
  auto operator<=>(const GemmSpec&) const = default;

  /// "gemm f32 1x64x128x64 nt bias relu": the key of the problem, and what is done to the product.
  std::string key() const;
  /// Multiplications and additions.
  double flops() const;
};

/// A prepared call. `operands` are a, b, c of a GEMM, and of a GPU's bias, workspace and addend; input, filter, output,
/// workspace of a convolution.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  /// Allocates nothing. False when the library reports a failure.
  virtual bool run(void* const* operands) = 0;
};

}  // namespace nabla::device
