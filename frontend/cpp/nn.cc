#include "frontend/cpp/nn.h"

#include <cmath>

#include "frontend/cpp/emit.h"

namespace nabla::nn {

void init_affine(const Affine<State>& layer, const Arg& key) {
  AtSite at(key);
  const Shape& shape = layer.w.type().shape;
  double fan_in = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) fan_in *= static_cast<double>(shape[i].value());
  double bound = std::sqrt(6 / fan_in);
  layer.w.set(rng_uniform(key, shape, layer.w.type().dtype, -bound, bound));
  layer.b.set(zeros(layer.b.type().shape, layer.b.type().dtype));
}

Tensor dense(const Arg& x, const Affine<Tensor>& layer) {
  AtSite at(x);
  return matmul(x, layer.w) + layer.b;
}

}  // namespace nabla::nn
