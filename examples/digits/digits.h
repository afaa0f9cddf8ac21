// What the two digit classifiers share: a model is a struct of parameters with `init` and `logits`; this makes the
// program around it.
#pragma once

#include <cstdio>
#include <string>

#include "frontend/nabla.h"

namespace nabla::digits {

inline constexpr int64_t kBatch = 64;
inline constexpr int64_t kSide = 8;
inline constexpr int64_t kClasses = 10;

/// Entries: `init(seed)`; `step(x, y) -> loss`, one AdamW step; `eval(x, y, mask) -> loss, accuracy`, means over the
/// ones of the mask; `predict(x) -> class, probability`. Pictures are u8 [64,8,8] with values 0..16. With a mesh its axis
/// `dp` cuts batches; how parameters lie is what their specs say.
template <template <class> class Model>
Program make_program(double learning_rate, const Model<Spec>& specs = Model<Spec>::specs(),
                     const std::vector<MeshAxis>& mesh = {}) {
  Program program;
  if (!mesh.empty()) program.mesh("pod", mesh);
  Model<State> model = program.states("", specs);
  nn::AdamW<Model> optimizer(program, specs, {});
  Spec x("x", u8, {kBatch, kSide, kSide});
  const Spec y("y", i32, {kBatch}), mask("mask", f32, {kBatch});
  if (!mesh.empty()) x = x.on(P("dp", "", ""));

  program.entry("init", {{"seed", u32, {2}}}, [&](Tensor seed) {
    Model<State>::init(model, seed);
    optimizer.init();
  });

  auto logits = [](Model<Tensor> p, Tensor pictures) {
    return Model<Tensor>::logits(p, convert(pictures, f32) / 16);
  };

  program.entry("step", {x, y}, [&](Tensor pictures, Tensor labels) -> Outputs {
    auto loss = [&](Model<Tensor> p) { return mean(cross_entropy(logits(p, pictures), labels)); };
    auto [value, gradients] = value_and_grad(loss)(get(model));
    optimizer.apply(model, gradients, learning_rate);
    return {{"loss", value}};
  });

  program.entry("eval", {x, y, mask}, [&](Tensor pictures, Tensor labels, Tensor weights) -> Outputs {
    Tensor scores = logits(get(model), pictures);
    Tensor right = convert(argmax(scores, -1) == labels, f32);
    Tensor count = sum(weights);
    return {{"loss", sum(cross_entropy(scores, labels) * weights) / count}, {"accuracy", sum(right * weights) / count}};
  });

  program.entry("predict", {x}, [&](Tensor pictures) -> Outputs {
    Tensor scores = logits(get(model), pictures);
    return {{"class", argmax(scores, -1)}, {"probability", softmax(scores, -1)}};
  });
  return program;
}

/// main() of a program: writes what `make` returns to the path that the command line names.
template <class Make>
int save(int argc, char** argv, const Make& make) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE.nir|.nir.json|.nbl\n", argv[0]);
    return 2;
  }
  try {
    make().save(argv[1]);
  } catch (const Error& e) {
    std::fputs(e.what(), stderr);
    return 1;
  }
  return 0;
}

/// main() of a model.
template <template <class> class Model>
int save_program(int argc, char** argv, double learning_rate) {
  return save(argc, argv, [&] { return make_program<Model>(learning_rate); });
}

}  // namespace nabla::digits
