// safetensors files: weights and saved state.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/format/npy.h"

namespace nabla::format {

/// Arrays in the order of their bytes. E0105 when `bytes` is no safetensors file; E0104 when it is damaged (offsets
/// that overlap, leave gaps, or do not fit dtype and shape); E0106 above the limits. Unknown dtypes and bools that are
/// neither 0 nor 1 are problems of their arrays alone.
Result<std::vector<ArrayView>> view_safetensors(Bytes bytes, const std::string& what);
/// The same with copies of the elements.
Result<ArrayResults> each_of_safetensors(Bytes bytes, const std::string& what);
Result<NamedArrays> parse_safetensors(Bytes bytes, const std::string& what);
Result<NamedArrays> read_safetensors(const std::string& path);
/// Texts by key that a file carries beside its arrays.
using Metadata = std::map<std::string, std::string>;
/// E0104 and E0105 as view_safetensors; values that are no text are left out.
Result<Metadata> safetensors_metadata(Bytes bytes, const std::string& what);
/// What stands before the elements, which follow in the order of `arrays` without gaps.
struct SafetensorsEntry {
  std::string name;
  nabla::DType dtype = nabla::DType::kF32;
  std::vector<int64_t> shape;
};
std::string safetensors_header(const std::vector<SafetensorsEntry>& arrays, const Metadata& metadata = {});
/// The file's bytes: the same arrays give the same bytes. Names are unique; `__metadata__` is not a name.
std::string safetensors_bytes(const NamedArrays& arrays, const Metadata& metadata = {});
Status write_safetensors(const std::string& path, const NamedArrays& arrays, const Metadata& metadata = {});

}  // namespace nabla::format
