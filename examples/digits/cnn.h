// A convolutional network for digits: two 3x3 convolutions, a maximum over 2x2 windows, two dense layers.
#pragma once

#include "examples/digits/digits.h"

namespace nabla::digits {

inline constexpr double kCnnLearningRate = 1e-3;

template <class T>
struct Cnn {
  nn::Affine<T> conv1, conv2, fc1, fc2;

  template <class V>
  void visit(V&& v) {
    v("conv1", conv1);
    v("conv2", conv2);
    v("fc1", fc1);
    v("fc2", fc2);
  }
  static Cnn<Spec> specs() {
    return {nn::conv_spec(3, 1, 32), nn::conv_spec(3, 32, 64), nn::dense_spec(64 * 4 * 4, 128),
            nn::dense_spec(128, kClasses)};
  }
  static void init(const Cnn<State>& p, Tensor seed) {
    nn::init_affine(p.conv1, fold_in(seed, 1));
    nn::init_affine(p.conv2, fold_in(seed, 2));
    nn::init_affine(p.fc1, fold_in(seed, 3));
    nn::init_affine(p.fc2, fold_in(seed, 4));
  }
  static Tensor logits(const Cnn<Tensor>& p, Tensor pictures) {
    Tensor h = reshape(pictures, {kBatch, kSide, kSide, 1});
    h = relu(conv2d(h, p.conv1.w, 1, 1) + p.conv1.b);
    h = relu(conv2d(h, p.conv2.w, 1, 1) + p.conv2.b);
    h = reshape(max_pool2d(h, 2), {kBatch, -1});
    h = relu(nn::dense(h, p.fc1));
    return nn::dense(h, p.fc2);
  }
};

}  // namespace nabla::digits
