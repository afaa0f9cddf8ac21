// Kernels to one shared object for a CPU target.
#pragma once

#include <string>
#include <vector>

#include "codegen/cpu/toolchain.h"
#include "ir/kernel_ir/kernel.h"

namespace nabla::codegen {

struct CpuCode {
  std::vector<SourceFile> sources;   ///< complete: each carries the prelude
  std::vector<std::string> symbols;  ///< per kernel
};

/// Prints every kernel once (kernels are distinct already) and spreads them over about `jobs` files; kernels of the
/// user's come first, a file each.
CpuCode print_cpu(const std::vector<kernel_ir::KernelPtr>& kernels, const ir::Target& target, int jobs);

}  // namespace nabla::codegen
