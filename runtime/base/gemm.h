// A matrix product as the libraries' problem, at compile time and at run time.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/dtype.h"
#include "runtime/base/problem.h"

namespace nabla {

/// What is done to a product before it is stored; kGelu is the form with tanh.
enum class Activation : uint8_t { kNone, kRelu, kGelu };
std::span<const std::string_view> names_of(Activation);  ///< "none", "relu", "gelu"
std::string_view name_of(Activation activation);
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
  /// Of 8-bit floats B may have another format than A, and C, bias and addend have more bits; kBool: as `dtype`, which is that of A.
  DType dtype_b = DType::kBool, dtype_c = DType::kBool;
  DType type_b() const { return dtype_b == DType::kBool ? dtype : dtype_b; }
  DType type_c() const { return dtype_c == DType::kBool ? dtype : dtype_c; }
  auto operator<=>(const GemmProblemOf&) const = default;

  /// Each with how it stands in the key; the sizes are in the order of Gemm.sizes in runtime/format/program.fbs.
  static constexpr std::string_view kKind = "gemm";
  static constexpr auto fields() {
    using P = GemmProblemOf;
    return std::tuple{in_key("dtype", &P::dtype, " "),
                      in_key("batch", &P::batch, " "),
                      in_key("m", &P::m, "x"),
                      in_key("n", &P::n, "x"),
                      in_key("k", &P::k, "x"),
                      in_key("transpose_a", &P::transpose_a, " "),
                      in_key("transpose_b", &P::transpose_b, ""),
                      beside_key("lda", &P::lda),
                      beside_key("ldb", &P::ldb),
                      beside_key("ldc", &P::ldc),
                      beside_key("stride_a", &P::stride_a),
                      beside_key("stride_b", &P::stride_b),
                      beside_key("stride_c", &P::stride_c),
                      in_key_of_call("bias", &P::bias, "bias"),
                      in_key_of_call("addend", &P::addend, "add"),
                      in_key_of_call("activation", &P::activation),
                      in_key_of_call("tf32", &P::tf32, "tf32"),
                      in_key_of_call("dtype_b", &P::dtype_b),
                      in_key_of_call("dtype_c", &P::dtype_c)};
  }
  /// Dense operands. False where a size is 0, or an operand larger than any array.
  bool complete() {
    auto fits = [&](Size rows, Size columns) {
      return static_cast<double>(batch) * static_cast<double>(rows) * static_cast<double>(columns) <= kMaxArrayBytes;
    };
    if (batch < 1 || m < 1 || n < 1 || k < 1 || !fits(m, k) || !fits(k, n) || !fits(m, n)) return false;
    lda = transpose_a ? m : k, ldb = transpose_b ? k : n, ldc = n;
    if (batch != 1) stride_a = m * k, stride_b = k * n, stride_c = m * n;
    return true;
  }
  /// f(size) for every size, in the order of the fields.
  template <class F>
  void for_each_size(F f) {
    for_each_field_of<Size>(*this, f);
  }
  template <class F>
  void for_each_size(F f) const {
    for_each_field_of<Size>(*this, f);
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

/// Multiplications and additions.
double flops_of(const GemmProblemOf<int64_t>& problem);

}  // namespace nabla
