// How frontend functions add nodes. Used by the generated functions, and by helpers made of several of them.
#pragma once

#include <string_view>
#include <vector>

#include "frontend/cpp/tensor.h"
#include "ir/attr.h"

namespace nabla {

/// Adds a node to the function being traced and returns its results. Numbers become constants; operands of an
/// elementwise op are broadcast against each other; values of enclosing functions become operands of this one.
/// Throws Error when the op refuses the operands, or outside of a trace.
std::vector<Tensor> emit(std::string_view op, const std::vector<Arg>& operands, ir::Attrs attrs, Site site);

/// Axes below 0 count from the end. What is out of range is left for the op's own check.
int64_t counted_from_end(int64_t axis, const Arg& x);
Ints counted_from_end(Ints axes, const Arg& x);
/// Returns [0, 1, ..., rank - 1].
Ints all_axes(const Tensor& x);
/// Returns the operand as a tensor. Throws E0707, which names `function`, if it is a number.
const Tensor& need_tensor(const Arg& x, const char* function);
/// The same. Throws E0203 if the tensor has another rank.
const Tensor& need_rank(const Arg& x, int rank, const char* function);

/// x in f32 if it is a float of 16 or 8 bits, else x. Statistics, squares and quotients are computed in this dtype,
/// because f16 holds neither sums above 65504 nor an eps of 1e-8.
Tensor widened(const Arg& x);
/// Returns the square root of a sum of squares. Its derivatives at 0 are defined as 0, because the slope of the root is infinite there.
Tensor root_of_squares(const Tensor& sum);
/// x in this dtype, rounded if it is narrower.
Tensor in_dtype(const Tensor& x, DType dtype);

/// While one lives, nodes carry its place: a helper's nodes show the line of the helper's caller.
class AtSite {
 public:
  explicit AtSite(const Site& site);
  explicit AtSite(const Arg& arg) : AtSite(arg.site()) {}
  ~AtSite();
  AtSite(const AtSite&) = delete;

 private:
  bool outermost_;
};

}  // namespace nabla
