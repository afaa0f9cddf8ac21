// Which products and convolutions a library computes.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// local -> local. Replaces products and convolutions, and on GPUs what the library does to a product on the way, by
/// `gemm` and `conv` nodes where the choice of the target or of its tuning file is a library. Requires what prepare
/// makes. Remarks name choices for problems that the module lacks.
Result<ir::Module> choose_libraries(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
