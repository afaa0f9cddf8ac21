// Index arithmetic that is data (argmax, comparison with a label, rng counters) in 32 bits.
#pragma once

#include "ir/kernel_ir/kernel.h"

namespace nabla::codegen {

/// The kernel with every i64 value that is computed from positions held in i32, where all of them provably fit;
/// otherwise the kernel as it is. 64-bit lanes take twice the registers, and addresses stay 64-bit either way.
kernel_ir::Kernel narrow_indices(const kernel_ir::Kernel& kernel);

}  // namespace nabla::codegen
