// How a grid works, as text: for kernels in text form and for reports.
#pragma once

#include <string>

#include "ir/kernel_ir/kernel.h"

namespace nabla::kernel_ir {

/// The mapping of a grid of the kernel, such as "product warpgroups tile 128, 256 stages 4".
std::string mapping_text(const Kernel& kernel, const Grid& grid);

}  // namespace nabla::kernel_ir
