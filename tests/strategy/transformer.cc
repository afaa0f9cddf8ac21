#include "tests/strategy/transformer.h"

#include <array>

#include "frontend/nabla.h"

namespace nabla::strategy_tests {
namespace {

struct Weight {
  std::string name;
  Shape shape;
};

// A step by the gradients of `loss`, with momentum if asked.
ir::Module training(const std::vector<Weight>& weights, const Shape& input, bool momentum,
                    const std::function<Tensor(const std::vector<Tensor>&, Tensor)>& loss_of) {
  Program program;
  std::vector<State> leaves, slots;
  for (const Weight& w : weights) leaves.push_back(program.state(w.name, f32, w.shape));
  for (const Weight& w : weights)
    if (momentum) slots.push_back(program.state("momentum." + w.name, f32, w.shape));
  program.entry("step", {{"x", f32, input}}, [&](Tensor x) -> Outputs {
    std::vector<Tensor> parameters;
    for (State& leaf : leaves) parameters.push_back(leaf.get());
    auto [value, gradients] = value_and_grad([&](std::vector<Tensor> p) { return loss_of(p, x); })(parameters);
    for (size_t i = 0; i < leaves.size(); ++i) {
      Tensor change = gradients[i];
      if (momentum) change = 0.9 * slots[i].get() + change, slots[i].set(change);
      leaves[i].set(leaves[i].get() - 0.01 * change);
    }
    return {{"loss", value}};
  });
  return program.module();
}

using Packed = TransformerSizes::Packed;

// Queries, keys and values [batch, heads, length, features] of a product with their weights in one.
std::array<Tensor, 3> unpacked(const Tensor& all, const TransformerSizes& s) {
  std::array<Tensor, 3> out;
  int64_t of_head = s.width / s.heads;
  for (int64_t k = 0; k < 3; ++k) {
    if (s.packed == Packed::kByKinds) {
      out[static_cast<size_t>(k)] = nn::split_heads(slice_axis(all, -1, k * s.width, (k + 1) * s.width), s.heads);
      continue;
    }
    Tensor heads = reshape(all, {s.batch, s.length, s.heads, 3 * of_head});
    out[static_cast<size_t>(k)] = transpose(slice_axis(heads, -1, k * of_head, (k + 1) * of_head), {0, 2, 1, 3});
  }
  return out;
}

}  // namespace

ir::Module transformer(const TransformerSizes& s) {
  std::vector<Weight> weights;
  for (int i = 0; i < s.layers; ++i) {
    auto add = [&](const char* name, const Shape& shape) { weights.push_back({fmt::format("block{}.{}", i, name), shape}); };
    add("norm1", {s.width});
    if (s.packed == Packed::kApart)
      for (const char* name : {"q", "k", "v"}) add(name, {s.width, s.width});
    else
      add("qkv", {s.width, 3 * s.width});
    add("out", {s.width, s.width});
    add("norm2", {s.width}), add("up", {s.width, 4 * s.width}), add("down", {4 * s.width, s.width});
  }
  return training(weights, {s.batch, s.length, s.width}, s.momentum, [&](const std::vector<Tensor>& p, Tensor x) {
    bool apart = s.packed == Packed::kApart;
    for (int i = 0; i < s.layers; ++i) {
      const Tensor* w = &p[static_cast<size_t>(i) * (apart ? 8 : 6)];
      Tensor n = rms_norm(x, w[0]);
      std::array<Tensor, 3> qkv;
      if (apart)
        for (size_t k = 0; k < 3; ++k) qkv[k] = nn::split_heads(matmul(n, w[1 + k]), s.heads);
      else
        qkv = unpacked(matmul(n, w[1]), s);
      const Tensor* rest = w + (apart ? 4 : 2);
      x = x + matmul(nn::merge_heads(attention(qkv[0], qkv[1], qkv[2], {}, true)), rest[0]);
      x = x + matmul(gelu(matmul(rms_norm(x, rest[1]), rest[2])), rest[3]);
    }
    return mean(x * x);
  });
}

ir::Module mixture_of_experts(int64_t experts) {
  constexpr int64_t kTokens = 64, kWidth = 32, kHidden = 128;
  int64_t slots = 2 * kTokens / experts;
  std::vector<Weight> weights{{"router", {kWidth, experts}}, {"up", {experts, kWidth, kHidden}}, {"down", {experts, kHidden, kWidth}}};
  return training(weights, {kTokens, kWidth}, false, [&](const std::vector<Tensor>& p, Tensor x) {
    Tensor gates = softmax(matmul(x, p[0]), 1);
    Tensor chosen = one_hot(argmax(gates, 1), experts);
    Tensor place = cumsum(chosen, 0) * chosen - 1;
    Tensor mask = one_hot(convert(place, i32), slots) * reshape(chosen, {kTokens, experts, 1});
    Tensor sent = einsum("tec,td->ecd", {mask, x});
    Tensor made = einsum("ech,ehd->ecd", {relu(einsum("ecd,edh->ech", {sent, p[1]})), p[2]});
    Tensor back = einsum("tec,ecd->td", {mask * reshape(gates, {kTokens, experts, 1}), made});
    Tensor y = x + back;
    return mean(y * y);
  });
}

ir::Module looked_up() {
  return training({{"table", {32, 64}}, {"w", {64, 64}}}, {16, 32}, true, [&](const std::vector<Tensor>& p, Tensor x) {
    Tensor y = tanh(matmul(embedding(p[0], convert(floor(15.5 * (x + 1)), i32)), p[1]));
    return mean(y * y);
  });
}

}  // namespace nabla::strategy_tests
