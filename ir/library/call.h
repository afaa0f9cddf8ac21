// What a library computes in a planned module, as one typed value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/library/convolution.h"
#include "ir/library/gemm.h"

namespace nabla::ir {

/// A launch that computes the same where the library is missing.
struct LibraryFallback {
  std::string kernel;         ///< in the module's kernels
  std::vector<ValueId> args;  ///< in the order of its buffers: operands, then the result
  Ints scratch;               ///< bytes of each of its own buffers, which follow the arguments and lie in the workspace
};

/// A value that the library reads or writes, and the part that it plays: "a", "bias", "filter".
struct LibraryRole {
  std::string_view name;
  ValueId value;
  bool written = false;
};

using LibraryProblem = std::variant<GemmProblem, ConvolutionProblem>;

struct LibraryCall {
  LibraryProblem problem;
  std::string_view library;     ///< "onednn", "cublaslt", "cudnn"
  std::string implementation;   ///< a name of ir/library/implementation.h
  std::vector<LibraryRole> roles;
  int64_t workspace_bytes = 0;  ///< that the library may use; 0: none, or what the plan gives
  std::optional<LibraryFallback> fallback;  ///< of GPU programs, which may meet a machine without the library

  /// The key of tuning files, at the bounds of all sizes.
  std::string key() const;
  DType dtype() const;  ///< of the factors
  Dim flops() const;    ///< multiplications and additions; saturates
  /// The factors of f32 products may be rounded to tf32.
  void round_factors();
  /// What is done to a product before it is stored: "bias add gelu"; empty: nothing.
  std::string epilogue() const;
};

/// Requires Lowering::kLibrary.
LibraryCall library_call(const Node& node, const Function& function, const Target& target);

}  // namespace nabla::ir
