// The rows of the procedures that stand in files of their own. Internal to procedure.cc.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "ir/kernel_ir/procedure.h"

namespace nabla::kernel_ir {

/// The names of a procedure's numbers after outer, count and inner. The rows, the meanings and the text of kernels take
/// them from one such list.
template <size_t N>
using NumberNames = std::array<std::string_view, N>;
inline constexpr size_t kOuter = 0, kCount = 1, kInner = 2;
/// Where the number of this name stands. A name that the list lacks does not compile.
template <size_t N>
consteval size_t place_of(const NumberNames<N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i)
    if (names[i] == name) return kInner + 1 + i;
  throw "no number has this name";
}
template <size_t N>
std::vector<std::string_view> list_of(const NumberNames<N>& names) {
  return {names.begin(), names.end()};
}

/// Matrices: a row is one of them; numbers are outer, its rows, 1, then what the row of the table names.
std::span<const ProcedureDef> linalg_procedures();
/// Sequences: numbers are outer, their length, 1, inverse.
std::span<const ProcedureDef> fft_procedures();
/// Attention: numbers are heads of all examples, queries, 1, then what the rows of the table name. They have code for
/// GPUs only.
std::span<const ProcedureDef> attention_procedures();

/// For the field `scratch` of procedures that need no scratch memory.
inline int64_t nothing(std::span<const int64_t>) { return 0; }

}  // namespace nabla::kernel_ir
