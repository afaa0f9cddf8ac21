// Matrix products of the IR as library problems.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ir/op_def.h"
#include "ir/target.h"
#include "runtime/base/gemm.h"

namespace nabla::ir {

/// A product whose sizes may be symbolic.
struct GemmProblem : GemmProblemOf<Dim> {
  /// The largest problem: every size at its upper bound.
  GemmProblemOf<int64_t> at_bounds() const;
  std::string key() const { return key_of(at_bounds()); }  ///< of tuning files
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
