// The loss curve as a self-contained SVG picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nabla::cli {

struct Curve {
  std::string metric;
  std::vector<double> values;  ///< one per training step
  int64_t per_epoch = 0;       ///< steps in an epoch; 0: unknown
};

/// The picture: raw values faint, a smoothed curve on top, a logarithmic axis when the values span much. Values that
/// are not finite are gaps.
std::string curve_svg(const Curve& curve, const std::string& title);

}  // namespace nabla::cli
