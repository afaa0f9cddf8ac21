#include "frontend/cpp/lora.h"

#include <cmath>

#include "frontend/cpp/emit.h"

namespace nabla::nn {
namespace {

double factor(const Lora<Tensor>& lora, double alpha) { return alpha / static_cast<double>(lora.a.size(-1)); }

}  // namespace

void init_lora(const Lora<State>& lora, const Arg& key) {
  AtSite at(key);
  const ir::Type &a = lora.a.type(), &b = lora.b.type();
  double bound = std::sqrt(6 / static_cast<double>(a.shape[0].value()));
  lora.a.set(rng_uniform(key, a.shape, a.dtype, -bound, bound));
  lora.b.set(zeros(b.shape, b.dtype));
}

Tensor lora_linear(const Arg& x, const Arg& w, const Lora<Tensor>& lora, double alpha) {
  AtSite at(x);
  return matmul(x, w) + matmul(matmul(x, lora.a), lora.b) * factor(lora, alpha);
}

Tensor lora_merge(const Arg& w, const Lora<Tensor>& lora, double alpha) {
  AtSite at(w);
  return w + matmul(lora.a, lora.b) * factor(lora, alpha);
}
Tensor lora_unmerge(const Arg& merged, const Lora<Tensor>& lora, double alpha) {
  AtSite at(merged);
  return merged - matmul(lora.a, lora.b) * factor(lora, alpha);
}

Tensor nf4_linear(const Arg& x, const Quantized& w, int64_t in, int64_t out) {
  AtSite at(x);
  return matmul(x, stop_gradient(dequantize_nf4(w, {in, out})));
}

}  // namespace nabla::nn
