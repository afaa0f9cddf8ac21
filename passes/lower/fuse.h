// From ops to kernels, library calls and views.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// flat or later -> kernels. Every node that is no library call becomes part of a kernel: maps are computed where
/// they are read, reductions and what follows them row by row share a kernel, matrix products take their elementwise
/// successors as an epilogue. Functions hold launches, library calls, constants and views afterwards; equal kernels
/// are one. E0403: an op without code.
Result<ir::Module> fuse(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
