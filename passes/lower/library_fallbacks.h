// Kernels for library calls whose library may be missing where a bundle runs.
#pragma once

#include <functional>

#include "ir/module.h"
#include "passes/pass.h"

namespace nabla::passes {

/// Lowers a function to launches of kernels, without a library.
using GenerateKernels = std::function<Result<ir::Function>(const ir::Function& alone)>;

/// Gives every library call of the function a kernel that computes its decomposition. A call whose decomposition would
/// be several kernels is replaced by it.
Result<ir::Function> add_fallbacks(const ir::Function& function, const ir::Module& module, const PassContext& context,
                                   const GenerateKernels& generate);

}  // namespace nabla::passes
