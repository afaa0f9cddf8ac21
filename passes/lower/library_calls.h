// Products and convolutions that a GPU's library computes instead of generated kernels.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "passes/pass.h"

namespace nabla::passes {

/// Nodes that one library call can compute.
struct LibraryCall {
  struct Operand {
    ir::ValueId value;
    ir::Ints layout;  ///< the transposition that the library wants of the value; empty: the value as it is
    std::optional<ir::Shape> shape = {};  ///< the shape in which the library gets it; none: the value's own
  };
  std::vector<int> nodes;  ///< in the order of their execution; the call's result is that of the last node
  std::vector<Operand> operands;
  ir::Ints result_layout;  ///< the transposition from the library's result to the node's; empty: they are equal
  std::string op;          ///< "gemm" or "conv"
  ir::Attrs attrs;         ///< the attributes of that op, without those of the fallback
  ir::Function alone;      ///< computes the call's result from its operands without a library
};

/// Lowers a function that computes the result of one call to launches of kernels: the call's fallback.
using GenerateFallback = std::function<Result<ir::Function>(const ir::Function& alone)>;

/// Replaces products and convolutions by `gemm` and `conv` nodes if the target's choice is a library. Each of these
/// nodes names the kernel that `generate` made as its fallback. A product whose fallback would be several kernels is left
/// alone, and so is everything on CPU targets. Requires normalised products (normalize_dots).
Result<ir::Function> take_library_calls(const ir::Function& function, const ir::Module& module,
                                        const PassContext& context, const GenerateFallback& generate);

}  // namespace nabla::passes
