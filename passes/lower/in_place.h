// When may a kernel's result share memory with one of its operands?
#pragma once

#include "ir/kernel_ir/kernel.h"

namespace nabla::passes {

/// True when every element of buffer `in` is read, if at all, by the iteration that stores the same element of
/// `out`, and not after that store.
bool may_share(const kernel_ir::Kernel& kernel, int in, int out);

}  // namespace nabla::passes
