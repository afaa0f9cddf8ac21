// Products and convolutions of which the target's choice is a library.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/library/gemm.h"
#include "ir/module.h"
#include "ir/target.h"

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
};

/// A dot_general as the target's library would get it; `problem` is nullopt where it is none of a library's.
struct LibraryProduct {
  std::optional<ir::GemmProblem> problem;
  std::optional<ir::ByteFactors> bytes;  ///< in the place of the product's own factors
};
LibraryProduct library_product(const ir::Node& dot, const ir::Function& function, const std::vector<int>& producers,
                               const ir::Target& target);

/// Matrix products. On GPUs a bias, a value that is added and an activation that follow come along where nobody reads
/// what lies between. Requires normalised products (the pass prepare).
std::vector<LibraryCall> library_products(const ir::Function& function, const ir::Target& target);

/// Convolutions and gradients of them. On GPUs the filter has its outputs first: transpositions stand before and after
/// the call, which become part of the kernels around it.
std::vector<LibraryCall> library_convolutions(const ir::Function& function, const ir::Target& target);

}  // namespace nabla::passes
