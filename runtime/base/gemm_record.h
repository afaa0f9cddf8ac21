// Which algorithm of a GPU's library measured fastest for a matrix product: a line of a file, or a row of a bundle.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nabla {

struct GemmRecord {
  std::string gpu;        ///< the driver's name of it, "NVIDIA H200"
  std::string library;    ///< version that the bytes belong to, "13.1.0"
  std::string problem;    ///< key of the problem; it begins with that of tuning files
  std::string algorithm;  ///< bytes that only the library understands

  bool operator==(const GemmRecord&) const = default;
  /// Do both say which algorithm the same problem takes on the same machine?
  bool replaces(const GemmRecord& other) const {
    return gpu == other.gpu && library == other.library && problem == other.problem;
  }
  /// "record NVIDIA H200 | 13.1.0 | gemm bf16 1x64x128x64 nt align 16 = 0a1b"
  std::string str() const;
  /// Nothing for a line that is no record.
  static std::optional<GemmRecord> parse(std::string_view line);
};

}  // namespace nabla
