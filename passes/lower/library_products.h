// Matrix products and convolutions that a GPU's library can compute.
#pragma once

#include <vector>

#include "passes/lower/library_calls.h"

namespace nabla::passes {

/// Products for which the target's choice is a library. A bias, a value that is added and an activation that
/// follow come along where nobody reads what lies between.
std::vector<LibraryCall> library_products(const ir::Function& function, const ir::Module& module,
                                          const PassContext& context);

/// Convolutions and gradients of them for which the target's choice is a library. It takes and gives the filter as O,
/// taps..., C/groups: transpositions stand before and after it, which become part of the kernels around it.
std::vector<LibraryCall> library_convolutions(const ir::Function& function, const ir::Module& module,
                                              const PassContext& context);

}  // namespace nabla::passes
