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

const LibraryFile* find_library_file(std::string_view name) {
  static constexpr LibraryFile kRows[] = {{"onednn", "libdnnl.so.2", "2.6"},
                                          {"cublaslt", "libcublasLt.so.13", "12.0"},
                                          {"cudnn", "libcudnn.so.9", "8.2"}};  // with bf16
  for (const LibraryFile& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace nabla::ir
