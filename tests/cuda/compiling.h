// Compiling CUDA text in tests. Without NVRTC such a test fails with E0505; it never passes for want of it.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/nvrtc.h"

namespace nabla::codegen {

ir::Target target_named(const std::string& name);
/// Compiles one text without the cache. It is a test failure when NVRTC refuses it (then there are no kernels), and when NVRTC's
/// assembler says that a kernel is slower than it could be.
CudaObject compiled(const std::string& text, const std::string& target);
/// The only kernel of a text.
CudaKernelFacts only_kernel(const std::string& text, const std::string& target);
/// The version of the NVRTC that tests use, such as "13.0".
std::string nvrtc_version();
/// The diagnostics of texts that must be refused, as a user sees them.
std::string refusal(const std::vector<SourceFile>& sources, const std::string& target);

}  // namespace nabla::codegen
