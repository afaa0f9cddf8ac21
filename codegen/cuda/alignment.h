// Which kernels find all their arrays at addresses that admit accesses of 16 bytes.
#pragma once

#include <vector>

#include "ir/module.h"

namespace nabla::codegen {

/// By kernel of a planned module: do its arrays begin at multiples of 16 bytes wherever it is launched? Else a kernel asks at run
/// time, such as one that reads single rows of an array in a loop.
std::vector<bool> kernels_at_packs(const ir::Module& module);

}  // namespace nabla::codegen
