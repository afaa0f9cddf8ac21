// The ways in which libraries compute products and convolutions.
#pragma once

#include <span>
#include <string_view>

namespace nabla::ir {

/// One row: adding a way that a library has is adding one here and to the runtime's loader of that library.
struct Implementation {
  std::string_view problem;  ///< what it computes: "gemm" or "convolution", the first word of its key
  std::string_view name;     ///< in modules, bundles and tuning files: "matmul", "cublaslt"
  std::string_view library;  ///< "onednn", "cublaslt", "cudnn"
  bool gpu;                  ///< whether it is for GPU targets; else it is for CPUs
};

/// A library as bundles name it.
struct LibraryFile {
  std::string_view name;         ///< "onednn", "cublaslt", "cudnn"
  std::string_view soname;       ///< "libdnnl.so.2"
  std::string_view min_version;  ///< the first version that has all that programs ask of it
};
/// Null for an unknown name.
const LibraryFile* find_library_file(std::string_view name);

std::span<const Implementation> implementations();
/// Null when there is none of that name for the problem.
const Implementation* find_implementation(std::string_view problem, std::string_view name);

}  // namespace nabla::ir
