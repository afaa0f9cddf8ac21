// Convolutions of the IR as library problems.
#pragma once

#include <string>

#include "ir/op_def.h"
#include "ir/target.h"
#include "runtime/base/convolution.h"

namespace nabla::ir {

/// Which value plays which part in a convolution or one of its gradients, before lowering or as a `conv`.
struct ConvolutionRoles {
  ConvolutionKind kind;
  ValueId input, filter, output;
};
ConvolutionRoles convolution_roles(const Node& node);

/// A convolution whose batch may be symbolic.
struct ConvolutionProblem {
  ConvolutionSpec spec;  ///< at the bounds of all sizes, without implementation and workspace
  Dim batch;             ///< the leading extent of input and output
  const ConvolutionSpec& at_bounds() const { return spec; }
  std::string key() const { return spec.key(); }
  DType factors() const { return spec.dtype; }
  Dim flops() const;  ///< multiplications and additions; saturates
  void round_factors() { spec.tf32 = true; }
  std::string epilogue() const { return ""; }
  /// f(size) for every size that may be symbolic.
  template <class F>
  void for_each_size(F f) const {
    f(batch);
  }
};

/// Its problem at the bounds of all sizes, without implementation and workspace.
ConvolutionSpec convolution_problem(const Node& node, const Function& function);

/// "generated", or an implementation that the target has for it. An axis of symbolic size other than the batch
/// is generated, and so is padding that cuDNN cannot describe: it knows the same number before and after.
std::string convolution_choice(const Node& node, const Function& function, const Target& target);

}  // namespace nabla::ir
