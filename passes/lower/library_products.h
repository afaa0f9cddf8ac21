// Matrix products that a GPU's library computes, with what the library does to the result on the way.
#pragma once

#include <functional>

#include "ir/module.h"
#include "passes/pass.h"

namespace nabla::passes {

/// Makes kernels of a function that computes one product: the same function, of launches.
using GenerateProduct = std::function<Result<ir::Function>(const ir::Function& product)>;

/// Products for which the target's choice is a library become `gemm` nodes, each with the kernel that `generate` makes
/// of the same product. A bias and an activation that follow come along where nobody reads what lies between. Products
/// whose kernel would not be one stay as they are, and so does everything on targets that are no GPUs. Requires
/// normalised products (normalize_dots).
Result<ir::Function> take_library_products(const ir::Function& function, const ir::Module& module,
                                           const PassContext& context, const GenerateProduct& generate);

}  // namespace nabla::passes
