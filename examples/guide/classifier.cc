// A struct of parameters, layers, a loss and an optimizer.
#include "examples/guide/guide.h"

using namespace nabla;  // NOLINT: a program, not a header

template <class T>
struct Model {
  nn::Affine<T> hidden, out;

  template <class V>
  void visit(V&& v) {
    v("hidden", hidden);
    v("out", out);
  }
};

Tensor logits(const Model<Tensor>& p, Tensor x) { return nn::dense(relu(nn::dense(x, p.hidden)), p.out); }

Program make_program() {
  Program program;
  Model<Spec> specs{nn::dense_spec(20, 64), nn::dense_spec(64, 5)};
  Model<State> model = program.states("", specs);  // leaves hidden.w, hidden.b, out.w, out.b
  nn::Optimizer<Model> optimizer(program, specs, nn::adamw());

  program.entry("init", {{"seed", u32, {2}}}, [&](Tensor seed) {
    nn::init_affine(model.hidden, fold_in(seed, 1));
    nn::init_affine(model.out, fold_in(seed, 2));
    optimizer.init();
  });

  program.entry("step", {{"x", f32, {32, 20}}, {"y", i32, {32}}}, [&](Tensor x, Tensor y) -> Outputs {
    auto loss = [&](Model<Tensor> p) { return mean(cross_entropy(logits(p, x), y)); };
    auto [value, gradients] = value_and_grad(loss)(get(model));
    auto [clipped, norm] = nn::clip_by_global_norm(gradients, 1.0);
    Tensor rate = nn::cosine_schedule(optimizer.step() + 1, {.peak = 1e-3, .warmup = 100, .total = 2000});
    optimizer.apply(model, clipped, rate);
    return {{"loss", value}, {"norm", norm}};
  });

  program.entry("predict", {{"x", f32, {32, 20}}}, [&](Tensor x) -> Outputs {
    return {{"class", argmax(logits(get(model), x), -1)}};
  });
  return program;
}

int main(int argc, char** argv) { return guide::save(argc, argv, make_program); }
