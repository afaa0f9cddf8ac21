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
  std::string key() const { return problem_key(at_bounds()); }  ///< of tuning files
  DType factors() const { return dtype; }
  Dim flops() const { return Dim(2) * batch * m * n * k; }  ///< multiplications and additions; saturates
  void round_factors() { tf32 = true; }
};

/// The problem of a `gemm`, with what it does to the product, or of a dot_general whose operands are normalised (the pass
/// prepare); nullopt where it is none: no free dimension on one side, or a size that may be 0. Of 8-bit floats results may have more bits.
std::optional<GemmProblem> gemm_problem(const Node& node, const Function& function);

/// The 8-bit floats that both factors of a product are, under conversions to the product's dtype that keep them: what cuBLASLt takes in
/// their place. nullopt where they are not.
struct ByteFactors {
  ValueId lhs, rhs;
};
std::optional<ByteFactors> byte_factors(const Node& dot, const Function& function, const std::vector<int>& producers);

/// "generated", or an implementation that the target has for it.
std::string gemm_choice(const GemmProblem& problem, const Target& target);

/// Where the scratch memory of a GPU library's call starts.
inline constexpr int64_t kLibraryWorkspaceAlignment = 256;

/// Bytes of scratch memory that a library call may use; 0 for none, and for nodes that are no library's. A convolution
/// on CPUs keeps its filter there in the layout that the library prefers.
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
