// Matrix products of the IR as library problems.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ir/op_def.h"
#include "ir/target.h"

namespace nabla::ir {

/// What is done to a product before it is stored; kGelu is the form with tanh.
enum class Activation : uint8_t { kNone, kRelu, kGelu };
std::string_view name_of(Activation activation);  ///< "none", "relu", "gelu"

/// C[b] = activation(op(A[b]) op(B[b]) + bias + addend[b]), row-major; leading dimensions and batch strides in elements.
struct GemmProblem {
  DType dtype = DType::kF32;
  Dim batch = 1, m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;
  Dim lda = 1, ldb = 1, ldc = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  Activation activation = Activation::kNone;
  bool bias = false;    ///< n elements, added to every row
  bool addend = false;  ///< lies as C does, and may be C
  bool tf32 = false;    ///< the factors of an f32 product may be rounded to tf32
  /// The largest problem: every size at its upper bound.
  GemmProblem at_bounds() const;
  /// "gemm f32 1x64x128x64 nt": the key of tuning files, at the bounds.
  std::string key() const;
  int64_t flops() const { return (Dim(2) * batch * m * n * k).bounds().max; }  ///< at the bounds
};

/// The problem of a dot_general whose operands are normalised (the pass prepare); nullopt where it is none: no free
/// dimension on one side, or a size that may be 0. Of a `gemm` also what it does to the product.
std::optional<GemmProblem> gemm_problem(const Node& node, const Function& function);

/// "generated", or the library's way: "matmul" or "sgemm" on CPUs, "cublaslt" on GPUs.
std::string gemm_choice(const GemmProblem& problem, const Target& target);

/// Where the scratch memory of a GPU library's call starts.
inline constexpr int64_t kLibraryWorkspaceAlignment = 256;

/// Bytes of scratch memory that the library call of a node may use; 0 for none. A convolution keeps its filter there
/// in the layout that the library prefers.
int64_t library_workspace_bytes(const Node& node, const Function& function);

/// Dimensions of one operand of a dot_general: batch and contracted ones as listed, the free ones in order.
struct DotSide {
  Ints batch, free, contract;
};
struct DotSides {
  DotSide lhs, rhs;
};
DotSides dot_sides(const Node& node, int lhs_rank, int rhs_rank);

}  // namespace nabla::ir
