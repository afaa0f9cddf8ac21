// A matrix product as the libraries' problem, at compile time and at run time.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/dtype.h"

namespace nabla {

/// What is done to a product before it is stored; kGelu is the form with tanh.
enum class Activation : uint8_t { kNone, kRelu, kGelu };
std::string_view name_of(Activation activation);  ///< "none", "relu", "gelu"
std::optional<Activation> find_activation(std::string_view name);

/// C[b] = activation(op(A[b]) op(B[b]) + bias + addend[b]), row-major; leading dimensions and batch strides in elements.
/// A Size is a number, or in modules with symbolic sizes an expression.
template <class Size>
struct GemmProblemOf {
  DType dtype = DType::kF32;
  Size batch = 1, m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;
  Size lda = 1, ldb = 1, ldc = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  Activation activation = Activation::kNone;
  bool bias = false;    ///< n elements, added to every row
  bool addend = false;  ///< lies as C does, and may be C
  bool tf32 = false;    ///< the factors of an f32 product may be rounded to tf32
  auto operator<=>(const GemmProblemOf&) const = default;

  /// f(size) for every size, in the order of Gemm.sizes in runtime/format/program.fbs.
  template <class F>
  void for_each_size(F f) {
    for (Size* s : {&batch, &m, &n, &k, &lda, &ldb, &ldc, &stride_a, &stride_b, &stride_c}) f(*s);
  }
  template <class F>
  void for_each_size(F f) const {
    for (const Size* s : {&batch, &m, &n, &k, &lda, &ldb, &ldc, &stride_a, &stride_b, &stride_c}) f(*s);
  }
  /// "bias add gelu"; empty: the product is stored as it is.
  std::string epilogue() const {
    std::string out;
    for (std::string_view part : {std::string_view(bias ? "bias" : ""), std::string_view(addend ? "add" : ""),
                                  activation == Activation::kNone ? std::string_view() : name_of(activation)})
      if (!part.empty()) (out += out.empty() ? "" : " ") += part;
    return out;
  }
};

/// "gemm f32 1x64x128x64 nt": type, batch, m, n and k, which factors are transposed. The key of tuning files.
std::string key_of(const GemmProblemOf<int64_t>& problem);
/// Multiplications and additions.
double flops_of(const GemmProblemOf<int64_t>& problem);

}  // namespace nabla
