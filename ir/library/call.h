// What a library computes in a planned module, as one typed value.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/library/convolution.h"
#include "ir/library/gemm.h"

namespace nabla::ir {

/// A kernel of the module that computes the same where the library is missing.
struct FallbackKernel {
  std::string kernel;  ///< in the module's kernels
  Ints order;          ///< which operands of the call it takes, in the order of its buffers; the result follows
  Ints scratch;        ///< bytes of each of its own buffers, which come last and lie in the workspace
  int64_t workspace_bytes = 0;  ///< that either of them may use
};
/// That of a library call of a GPU's program, which may meet a machine without the library, from `fuse` on. Calls of
/// CPU programs have none, nor has any other node.
std::optional<FallbackKernel> fallback_kernel(const Node& node);
/// The attributes of a library call that has this one.
void set_fallback_kernel(Attrs& attrs, const FallbackKernel& fallback);

/// The kernel that a launch runs, or a library call where the library is missing; nothing for all other nodes.
std::optional<std::string> kernel_of(const Node& node);

/// The operand of a library call that is added to the result and may lie where the result does; -1: there is none.
int addend_operand(const Node& node);

/// The launch of a fallback kernel.
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

/// What every kind of problem says of itself.
template <class P>
concept LibraryKind = requires(P problem, const P& asked) {
  { asked.key() } -> std::same_as<std::string>;       // of tuning files, at the bounds of all sizes
  { asked.factors() } -> std::same_as<DType>;         // their element type
  { asked.flops() } -> std::same_as<Dim>;             // multiplications and additions; saturates
  { asked.epilogue() } -> std::same_as<std::string>;  // what is done to the result before it is stored; empty: nothing
  problem.round_factors();                            // f32 factors may be rounded to tf32
  asked.at_bounds();                                  // the problem of runtime/base, every size at its upper bound
  asked.for_each_size([](const Dim&) {});             // the sizes that a run decides, in the order of the fields
};
template <LibraryKind... P>
using ProblemOf = std::variant<P...>;
using LibraryProblem = ProblemOf<GemmProblem, ConvolutionProblem>;

struct LibraryCall {
  LibraryProblem problem;
  std::string_view library;     ///< "onednn", "cublaslt", "cudnn"
  std::string implementation;   ///< a name of ir/library/implementation.h
  std::vector<LibraryRole> roles;
  int64_t workspace_bytes = 0;  ///< that the library may use; 0: none, or what the plan gives
  std::optional<LibraryFallback> fallback;  ///< where there is a fallback kernel

  // As LibraryKind says.
  std::string key() const {
    return std::visit([](const auto& p) { return p.key(); }, problem);
  }
  DType dtype() const {
    return std::visit([](const auto& p) { return p.factors(); }, problem);
  }
  Dim flops() const {
    return std::visit([](const auto& p) { return p.flops(); }, problem);
  }
  std::string epilogue() const {
    return std::visit([](const auto& p) { return p.epilogue(); }, problem);
  }
  void round_factors() {
    std::visit([](auto& p) { p.round_factors(); }, problem);
  }
};

/// Requires Lowering::kLibrary.
LibraryCall library_call(const Node& node, const Function& function, const Target& target);

}  // namespace nabla::ir
