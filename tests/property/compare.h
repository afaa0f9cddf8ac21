// Comparison of tensors under stated tolerances.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/literal.h"

namespace nabla::property {

struct Tolerance {
  double relative;           ///< to the scale
  bool elementwise = false;  ///< the scale is the expected element itself, not the largest finite one of the tensor
  bool zero_signs = false;   ///< -0 and 0 differ
  double least_scale = 0;    ///< the scale is not smaller: what cancelled on the way
};

/// f64: 1e-12, f32: 1e-5, narrower floats: 4 units in the last place; their scale is the largest element.
Tolerance default_tolerance(DType dtype);

/// Nothing where `got` is `expected`: the same type, NaN and infinities in the same places, finite floats within the
/// tolerance, everything else exactly. Otherwise what differs first.
std::optional<std::string> difference(const Literal& expected, const Literal& got, const Tolerance& tolerance);
std::optional<std::string> difference(const Literal& expected, const Literal& got);
/// For lists of results.
std::optional<std::string> difference(const std::vector<Literal>& expected, const std::vector<Literal>& got,
                                      std::optional<Tolerance> tolerance = std::nullopt);

/// Sum of the products of corresponding floating elements.
double inner_product(const std::vector<Literal>& a, const std::vector<Literal>& b);

}  // namespace nabla::property
