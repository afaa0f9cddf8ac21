#include "ir/library/implementation.h"

namespace nabla::ir {

std::span<const Implementation> implementations() {
  static constexpr Implementation kRows[] = {
      {"gemm", "matmul", "onednn", false},       {"gemm", "sgemm", "onednn", false},
      {"gemm", "cublaslt", "cublaslt", true},    {"convolution", "direct", "onednn", false},
      {"convolution", "cudnn", "cudnn", true},
  };
  return kRows;
}

const Implementation* find_implementation(std::string_view problem, std::string_view name) {
  for (const Implementation& i : implementations())
    if (i.problem == problem && i.name == name) return &i;
  return nullptr;
}

}  // namespace nabla::ir
