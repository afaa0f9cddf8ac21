#include "tests/property/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace nabla::property {

Tolerance default_tolerance(DType dtype) {
  if (dtype == DType::kF64) return {1e-12};
  if (dtype == DType::kF32) return {1e-5};
  return {4 * epsilon_of(dtype)};
}

static double largest_finite(const Literal& x) {
  double scale = 0;
  for (int64_t i = 0; i < x.size(); ++i)
    if (std::isfinite(x.get(i))) scale = std::max(scale, std::fabs(x.get(i)));
  return scale;
}

std::optional<std::string> difference(const Literal& expected, const Literal& got, const Tolerance& tolerance) {
  if (expected.dtype() != got.dtype() || expected.shape() != got.shape())
    return fmt::format("expected {}{}, got {}{}", name_of(expected.dtype()), shape_str(expected.shape()),
                       name_of(got.dtype()), shape_str(got.shape()));
  if (!is_float(expected.dtype())) {
    for (int64_t i = 0; i < expected.size(); ++i)
      if (expected.get_i(i) != got.get_i(i))
        return fmt::format("element {}: expected {}, got {}", i, expected.get_i(i), got.get_i(i));
    return std::nullopt;
  }
  double tensor_scale = tolerance.elementwise ? 0 : largest_finite(expected);
  // Numbers below the smallest normal one have fewer bits.
  double floor = bytes_of(expected.dtype()) == 8 ? 1e-300 : expected.dtype() == DType::kF16 ? 1e-5 : 1e-30;
  for (int64_t i = 0; i < expected.size(); ++i) {
    double e = expected.get(i), g = got.get(i);
    double scale = tolerance.elementwise ? std::fabs(e) : tensor_scale;
    bool same = std::isnan(e) ? std::isnan(g)
                : std::isinf(e) ? e == g
                                : std::isfinite(g) && std::fabs(e - g) <= tolerance.relative * std::max({scale, floor, tolerance.least_scale});
    if (same && tolerance.zero_signs && e == 0 && g == 0) same = std::signbit(e) == std::signbit(g);
    if (!same) return fmt::format("element {}: expected {}, got {} (scale {}, tolerance {})", i, e, g, scale, tolerance.relative);
  }
  return std::nullopt;
}

std::optional<std::string> difference(const Literal& expected, const Literal& got) {
  return difference(expected, got, default_tolerance(expected.dtype()));
}

std::optional<std::string> difference(const std::vector<Literal>& expected, const std::vector<Literal>& got,
                                      std::optional<Tolerance> tolerance) {
  if (expected.size() != got.size()) return fmt::format("expected {} results, got {}", expected.size(), got.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    Tolerance t = tolerance.value_or(default_tolerance(expected[i].dtype()));
    if (auto text = difference(expected[i], got[i], t)) return fmt::format("result {}: {}", i, *text);
  }
  return std::nullopt;
}

double inner_product(const std::vector<Literal>& a, const std::vector<Literal>& b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    if (!is_float(a[k].dtype())) continue;
    for (int64_t i = 0; i < a[k].size(); ++i) sum += a[k].get(i) * b[k].get(i);
  }
  return sum;
}

}  // namespace nabla::property
