// What the libraries for matrix products have in common: the problem, and a call that is ready to run.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "runtime/base/convolution.h"
#include "runtime/base/dtype.h"

namespace nabla::device {

using nabla::ConvolutionKind;
using nabla::ConvolutionSpec;

/// What is done to a product before it is stored; kGelu is the form with tanh.
enum class GemmEpilogue : uint8_t { kNone, kRelu, kGelu };

/// C[b] = epilogue(op(A[b]) op(B[b]) + bias + addend[b]), row-major; see Gemm in runtime/format/program.fbs.
struct GemmSpec {
  DType dtype = DType::kF32;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  std::string implementation;  ///< "matmul" or "sgemm" of oneDNN, "cublaslt"
  // Of cuBLASLt only:
  GemmEpilogue epilogue = GemmEpilogue::kNone;
  bool bias = false;            ///< n elements, added to every row
  bool addend = false;          ///< lies as C does, and may be C
  bool tf32 = false;            ///< factors of an f32 product may be rounded to tf32
  int64_t workspace_bytes = 0;  ///< that the call may use
  int64_t alignment = 256;      ///< of every operand's address
  auto operator<=>(const GemmSpec&) const = default;

  /// "gemm f32 1x64x128x64 nt bias relu": batch, m, n and k, which factors are transposed, what is done to the product.
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
