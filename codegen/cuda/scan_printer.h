// Running sums, products and extremes, whose rows teams share out.
#pragma once

#include "codegen/cuda/template_grid.h"

namespace nabla::codegen {

/// Of cumsum, cumprod, cummax, cummin and the positions of the latter two.
TemplateCalls scan_calls(const kernel_ir::Kernel& kernel);

}  // namespace nabla::codegen
