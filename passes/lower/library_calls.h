// What a GPU's library computes in the place of kernels.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "passes/pass.h"

namespace nabla::passes {

/// Nodes that one call can compute.
struct LibraryCall {
  struct Operand {
    ir::ValueId value;
    ir::Ints layout;  ///< the transposition of the value that the library takes; empty: the value itself
    std::optional<ir::Shape> shape = {};  ///< that it is given; none: its own
  };
  std::vector<int> nodes;  ///< what is computed first in front; the result of the last is the result of all
  std::vector<Operand> operands;
  ir::Ints
      result_layout;   ///< the transposition that makes the result of what the library gives; empty: it is the result
  std::string op;      ///< "gemm" or "conv"
  ir::Attrs attrs;     ///< of that op, all but those of the alternative
  ir::Function alone;  ///< what the call gives as a function of its operands, without a library
};

/// Makes kernels of a function that computes one call's result: the same function, of launches.
using GenerateAlternative = std::function<Result<ir::Function>(const ir::Function& alone)>;

/// Products and convolutions for which the target's choice is a library become `gemm` and `conv` nodes, each with the
/// kernel that `generate` makes of the same. What would not be one kernel stays as it is, and so does everything on
/// targets that are no GPUs. Requires normalised products (normalize_dots).
Result<ir::Function> take_library_calls(const ir::Function& function, const ir::Module& module,
                                        const PassContext& context, const GenerateAlternative& generate);

}  // namespace nabla::passes
