#include "runtime/base/convolution.h"

#include <algorithm>
#include <iterator>

namespace nabla {

namespace {

constexpr std::string_view kKinds[] = {"forward", "input_grad", "filter_grad"};

}  // namespace

std::span<const std::string_view> names_of(ConvolutionKind) { return kKinds; }
std::string_view name_of(ConvolutionKind kind) { return kKinds[static_cast<size_t>(kind)]; }

bool ConvolutionSpec::complete() {
  size_t rank = input_shape.size(), spatial = strides.size();
  if (dilations.empty()) dilations.assign(spatial, 1);
  if (rank != spatial + 2 || spatial == 0 || filter_shape.size() != rank || output_shape.size() != rank ||
      padding_low.size() != spatial || dilations.size() != spatial || groups < 1)
    return false;
  for (const auto* list : {&input_shape, &filter_shape, &output_shape, &strides, &dilations})
    if (std::any_of(list->begin(), list->end(), [](int64_t n) { return n < 1; })) return false;
  padding_high.clear();
  for (size_t d = 0; d < spatial; ++d) {
    auto product = [](int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); };
    if (product(output_shape[d + 1], strides[d]) > kMaxArrayBytes ||
        product(filter_shape[d], dilations[d]) > kMaxArrayBytes)
      return false;
    int64_t reach = (output_shape[d + 1] - 1) * strides[d] + (filter_shape[d] - 1) * dilations[d] + 1;
    padding_high.push_back(std::max<int64_t>(0, reach - input_shape[d + 1] - padding_low[d]));
  }
  return true;
}

double ConvolutionSpec::flops() const {
  double out = 2;
  for (int64_t extent : output_shape) out *= static_cast<double>(extent);
  for (size_t d = 0; d + 1 < filter_shape.size(); ++d) out *= static_cast<double>(filter_shape[d]);
  return out;
}

}  // namespace nabla
