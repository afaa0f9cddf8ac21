// Low-rank adapters of linear layers (Hu et al., "LoRA", 2021), and linear layers with four-bit weights.
#pragma once

#include "frontend/cpp/nn.h"
#include "frontend/cpp/quantize.h"

namespace nabla::nn {

/// The change alpha / rank a b of a weight [in, out].
template <class T>
struct Lora {
  T a;  ///< [in, rank]
  T b;  ///< [rank, out]
  template <class V>
  void visit(V&& v) {
    v("a", a);
    v("b", b);
  }
};
inline Lora<Spec> lora_spec(int64_t in, int64_t out, int64_t rank) { return {{f32, {in, rank}}, {f32, {rank, out}}}; }
/// a uniform in +-sqrt(6 / in), b zero: the layer starts unchanged.
void init_lora(const Lora<State>& lora, const Arg& key);
/// x [..., in] times w plus alpha / rank (x a) b; a b is never formed.
Tensor lora_linear(const Arg& x, const Arg& w, const Lora<Tensor>& lora, double alpha);
/// w + alpha / rank a b, and back.
Tensor lora_merge(const Arg& w, const Lora<Tensor>& lora, double alpha);
Tensor lora_unmerge(const Arg& merged, const Lora<Tensor>& lora, double alpha);
/// x [..., in] times a weight [in, out] of quantize_nf4. Derivatives go to x alone. Beside an adapter (QLoRA) the
/// weight of lora_linear is dequantize_nf4(w, {in, out}).
Tensor nf4_linear(const Arg& x, const Quantized& w, int64_t in, int64_t out);

}  // namespace nabla::nn
