#include "tests/cuda/compiling.h"

#include <gtest/gtest.h>

#include "codegen/cuda/nvrtc_library.h"

namespace nabla::codegen {

ir::Target target_named(const std::string& name) { return ir::find_target(name).value(); }

CudaObject compiled(const std::string& text, const std::string& target) {
  Result<CudaBinary> binary = compile_cuda({{"test_0.cu", text}}, target_named(target), {1, ""});
  if (binary.ok()) {
    // A kernel whose wgmma the assembler serializes is right, and several times slower.
    for (const CudaKernelFacts& kernel : binary->objects.at(0).kernels)
      for (const std::string& text : kernel.advice) ADD_FAILURE() << kernel.name << " for " << target << ": " << text;
    return binary->objects.at(0);
  }
  ADD_FAILURE() << target << ": " << to_string(binary.errors());
  return {};
}

CudaKernelFacts only_kernel(const std::string& text, const std::string& target) {
  CudaObject object = compiled(text, target);
  EXPECT_EQ(object.kernels.size(), 1u) << text;
  return object.kernels.size() == 1 ? object.kernels[0] : CudaKernelFacts{};
}

std::string nvrtc_version() {
  Result<NvrtcLibrary> library = open_nvrtc(nvrtc_candidates());
  if (library.ok()) return library->version();
  ADD_FAILURE() << to_string(library.errors());
  return "";
}

std::string refusal(const std::vector<SourceFile>& sources, const std::string& target) {
  Result<CudaBinary> binary = compile_cuda(sources, target_named(target), {2, ""});
  EXPECT_FALSE(binary.ok());
  return binary.ok() ? "" : to_string(binary.errors());
}

}  // namespace nabla::codegen
