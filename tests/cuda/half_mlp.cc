// Writes the digits MLP whose products are computed in bf16, forward and backward: half_mlp FILE.nir
#include "examples/digits/mlp.h"

namespace nabla::digits {

template <class T>
struct HalfMlp : Mlp<T> {
  static HalfMlp<Spec> specs() { return {Mlp<Spec>::specs()}; }
  static void init(const HalfMlp<State>& p, Tensor seed) { Mlp<State>::init(p, seed); }
  static Tensor logits(const HalfMlp<Tensor>& p, Tensor pictures) {
    return autocast([](HalfMlp<Tensor> q, Tensor x) { return Mlp<Tensor>::logits(q, x); })(p, pictures);
  }
};

}  // namespace nabla::digits

int main(int argc, char** argv) {
  return nabla::digits::save_program<nabla::digits::HalfMlp>(argc, argv, nabla::digits::kMlpLearningRate);
}
