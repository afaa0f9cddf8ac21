#include "runtime/base/convolution.h"

#include <algorithm>

#include "runtime/base/diagnostic.h"

namespace nabla {
namespace {

std::string join(const std::vector<int64_t>& values, const char* between) {
  std::string out;
  for (int64_t v : values) out += (out.empty() ? "" : between) + std::to_string(v);
  return out;
}

}  // namespace

std::string ConvolutionSpec::key() const {
  constexpr const char* kKinds[] = {"forward", "input_grad", "filter_grad"};
  std::string out = fmt::format("convolution {} {} {} {} {} stride {} pad {}", name_of(dtype),
                                kKinds[static_cast<size_t>(kind)], join(input_shape, "x"), join(filter_shape, "x"),
                                join(output_shape, "x"), join(strides, ","), join(padding_low, ","));
  if (std::any_of(dilations.begin(), dilations.end(), [](int64_t d) { return d != 1; }))
    out += fmt::format(" dilation {}", join(dilations, ","));
  return groups == 1 ? out : out + fmt::format(" groups {}", groups);
}

double ConvolutionSpec::flops() const {
  double out = 2;
  for (int64_t extent : output_shape) out *= static_cast<double>(extent);
  for (size_t d = 0; d + 1 < filter_shape.size(); ++d) out *= static_cast<double>(filter_shape[d]);
  return out;
}

}  // namespace nabla
