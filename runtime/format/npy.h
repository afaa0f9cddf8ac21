// NumPy's .npy and .npz files.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/base/literal.h"
#include "runtime/format/file.h"

namespace nabla::format {

using NamedArrays = std::vector<std::pair<std::string, Literal>>;

/// The arrays of a file, each by itself: what Nabla cannot take (E0704: an element type that it lacks, a bool that is
/// neither 0 nor 1) is an error for those who ask for that array, and for no other.
using ArrayResults = std::vector<std::pair<std::string, Result<Literal>>>;
/// All of them, or the first error.
Result<NamedArrays> all_or_error(ArrayResults arrays);

/// E0704 that names the first of `count` bools that is neither 0 nor 1; nothing where there is none.
std::optional<Diagnostic> bad_bool(const uint8_t* data, int64_t count, const std::string& what);

/// An array that lies in bytes of another owner, at any alignment.
struct ArrayView {
  std::string name;
  nabla::DType dtype = nabla::DType::kF32;  // program.fbs has a DType too
  std::vector<int64_t> shape;
  const uint8_t* data = nullptr;
  std::optional<Diagnostic> problem = std::nullopt;  ///< why it cannot be taken; dtype says nothing then
};

/// The array of a .npy in `bytes`, or nothing where its elements are in Fortran order. Errors as of parse_npy.
Result<std::optional<ArrayView>> view_npy(Bytes bytes, const std::string& what);
/// Versions 1 to 3, C or Fortran order, little-endian. E0105 when `bytes` is no .npy, E0104 when it is damaged (also by
/// bytes after the data), E0704 for element types that Nabla does not have, structured ones, and bools that are
/// neither 0 nor 1. `what` names the source in messages.
Result<Literal> parse_npy(Bytes bytes, const std::string& what);
Result<Literal> read_npy(const std::string& path);
/// The file's bytes. E0704 for element types that NumPy does not have (bf16, f8).
Result<std::string> npy_bytes(const Literal& array);
Status write_npy(const std::string& path, const Literal& array);

/// Whether the other arrays of a .npz can be used although one is not read: it is no .npy file, of a newer version, or of
/// an element type that Nabla lacks. Other problems are damage, which concerns the whole file.
bool concerns_one_array(const Diagnostic& problem);
/// The arrays of a .npz in the archive's order, stored or deflated. Folders are left out.
Result<ArrayResults> each_of_npz(Bytes bytes, const std::string& what);
Result<NamedArrays> parse_npz(Bytes bytes, const std::string& what);
Result<NamedArrays> read_npz(const std::string& path);
Status write_npz(const std::string& path, const NamedArrays& arrays, bool deflate = false);

}  // namespace nabla::format
