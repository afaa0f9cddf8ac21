// A multi-layer perceptron for digits: 64-128-64-10 with relu.
#pragma once

#include "examples/digits/digits.h"

namespace nabla::digits {

inline constexpr double kMlpLearningRate = 2e-3;

template <class T>
struct Mlp {
  nn::Affine<T> fc1, fc2, fc3;

  template <class V>
  void visit(V&& v) {
    v("fc1", fc1);
    v("fc2", fc2);
    v("fc3", fc3);
  }
  static Mlp<Spec> specs() { return {nn::dense_spec(64, 128), nn::dense_spec(128, 64), nn::dense_spec(64, kClasses)}; }
  static void init(const Mlp<State>& p, Tensor seed) {
    nn::init_affine(p.fc1, fold_in(seed, 1));
    nn::init_affine(p.fc2, fold_in(seed, 2));
    nn::init_affine(p.fc3, fold_in(seed, 3));
  }
  static Tensor logits(const Mlp<Tensor>& p, Tensor pictures) {
    Tensor h = relu(nn::dense(reshape(pictures, {kBatch, -1}), p.fc1));
    h = relu(nn::dense(h, p.fc2));
    return nn::dense(h, p.fc3);
  }
};

}  // namespace nabla::digits
