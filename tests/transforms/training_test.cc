// Gradients that train: a few steps of gradient descent on small networks, in the interpreter.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "tests/transforms/random_function.h"

namespace nabla::transforms {
namespace {

using ir::FunctionBuilder;
using ir::Ints;
using ir::Module;
using ir::Val;

ir::Type f32(ir::Shape shape) { return {DType::kF32, std::move(shape)}; }

Val dense(Val x, Val w, Val bias) {
  Val y = x.b->op("dot_general", {x, w}, {{"lhs_contract", Ints{1}}, {"rhs_contract", Ints{0}}});
  return y + broadcast_along(bias, y.shape(), {0});
}

Val mean_loss(Val logits, Val labels) {
  Val losses = logits.b->op("cross_entropy", {logits, labels});
  return reduce_sum(losses, {0}) * (1.0 / static_cast<double>(losses.shape()[0].value()));
}

ir::Function mlp() {
  FunctionBuilder b("loss", ops::all_ops());
  Val w1 = b.param("w1", f32({5, 8})), b1 = b.param("b1", f32({8}));
  Val w2 = b.param("w2", f32({8, 4})), b2 = b.param("b2", f32({4}));
  Val x = b.param("x", f32({16, 5})), labels = b.param("labels", {DType::kI32, {16}});
  Val hidden = b.op("relu", {dense(x, w1, b1)});
  return b.finish({mean_loss(dense(hidden, w2, b2), labels)});
}

ir::Function cnn() {
  FunctionBuilder b("loss", ops::all_ops());
  Val k = b.param("k", f32({3, 3, 1, 3}));
  Val w = b.param("w", f32({48, 4})), bias = b.param("b", f32({4}));
  Val x = b.param("x", f32({8, 8, 8, 1})), labels = b.param("labels", {DType::kI32, {8}});
  Val y = b.op(
      "convolution", {x, k},
      {{"strides", Ints{1, 1}}, {"padding_low", Ints{1, 1}}, {"padding_high", Ints{1, 1}}, {"dilation", Ints{1, 1}}});
  y = b.op("reduce_window_max", {b.op("relu", {y})},
           {{"window", Ints{1, 2, 2, 1}},
            {"strides", Ints{1, 2, 2, 1}},
            {"padding_low", Ints{0, 0, 0, 0}},
            {"padding_high", Ints{0, 0, 0, 0}},
            {"dilation", Ints{1, 1, 1, 1}}});
  return b.finish({mean_loss(dense(reshape(y, {8, 48}), w, bias), labels)});
}

// The loss before and after `steps` of gradient descent by the first `trained` parameters.
std::pair<double, double> train(ir::Function loss, size_t trained, int steps, double rate) {
  Module m;
  add(m, std::move(loss));
  add_wrapper(m, "step", "value_and_grad", "loss", {{"wrt", ir::iota_ints(static_cast<int>(trained))}});
  Module flat = flattened(m);
  std::vector<Literal> args = random_args(*flat.find("step"), 1);
  double first = 0, last = 0;
  for (int s = 0; s <= steps; ++s) {
    auto out = run(flat, "step", args);
    last = out[0].get(0);
    if (s == 0) first = last;
    for (size_t p = 0; p < trained; ++p)
      for (int64_t i = 0; i < args[p].size(); ++i) args[p].set(i, args[p].get(i) - rate * out[1 + p].get(i));
  }
  return {first, last};
}

TEST(Training, GradientDescentLowersTheLossOfAnMlp) {
  auto [first, last] = train(mlp(), 4, 60, 0.3);
  EXPECT_LT(last, 0.6 * first);
}

TEST(Training, GradientDescentLowersTheLossOfAConvolutionalNetwork) {
  auto [first, last] = train(cnn(), 3, 30, 0.1);
  EXPECT_LT(last, 0.6 * first);
}

}  // namespace
}  // namespace nabla::transforms
