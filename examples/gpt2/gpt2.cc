#include "examples/gpt2/gpt2.h"

#include <algorithm>
#include <cmath>

namespace nabla::gpt2 {
namespace {

Tensor norm(const Tensor& x, const nn::NormPair<Tensor>& p) { return layer_norm(x, p.scale, p.shift); }

Tensor self_attention(const Tensor& x, const Block<Tensor>& b, int64_t heads) {
  int64_t width = x.size(-1);
  Tensor qkv = nn::dense(x, b.qkv);
  auto part = [&](int64_t i) { return nn::split_heads(slice_axis(qkv, -1, i * width, (i + 1) * width), heads); };
  return nn::dense(nn::merge_heads(attention(part(0), part(1), part(2), {}, true)), b.out);
}

Tensor block(Tensor x, const Block<Tensor>& b, int64_t heads) {
  x = x + self_attention(norm(x, b.norm1), b, heads);
  return x + nn::dense(gelu(nn::dense(norm(x, b.norm2), b.up)), b.down);
}

Tensor loss_of(const Model<Tensor>& p, const Tensor& tokens, const Options& o) {
  Tensor inputs = slice_axis(tokens, 1, 0, o.context), labels = slice_axis(tokens, 1, 1, o.context + 1);
  return mean(cross_entropy(forward(p, inputs, o.heads), labels));
}

// Normal with a deviation of 0.02; layers that end in a sum start smaller, by the number of sums.
void init_model(Model<State>& model, const Tensor& seed, const Options& o) {
  uint32_t leaf = 0;
  for (auto& [name, state] : leaves_of<State>(model)) {
    const Shape& shape = state->type().shape;
    bool ends_in_sum = name.ends_with("out.w") || name.ends_with("down.w");
    double deviation = ends_in_sum ? 0.02 / std::sqrt(2.0 * static_cast<double>(o.layers)) : 0.02;
    state->set(name.ends_with("scale") ? ones(shape)
               : shape.size() == 1     ? zeros(shape)
                                       : rng_normal(fold_in(seed, ++leaf), shape, f32, 0, deviation));
  }
}

// Matrices decay, vectors do not.
nn::OptimizerRule adamw_of_matrices() {
  nn::OptimizerRule rule = nn::adamw(0.9, 0.95, 1e-8, 0.1), plain = nn::adamw(0.9, 0.95, 1e-8, 0);
  rule.update = [decayed = rule.update, plain = plain.update](
                    const Tensor& param, const Tensor& grad, std::vector<Tensor>& slots, const Tensor& step,
                    const Arg& lr) { return (param.rank() > 1 ? decayed : plain)(param, grad, slots, step, lr); };
  return rule;
}

}  // namespace

Model<Spec> model_specs(const Options& o) {
  const int64_t w = o.width;
  nn::NormPair<Spec> norm = {{f32, {w}}, {f32, {w}}};
  Block<Spec> block = {
      norm, norm, nn::dense_spec(w, 3 * w), nn::dense_spec(w, w), nn::dense_spec(w, 4 * w), nn::dense_spec(4 * w, w)};
  return {{f32, {o.vocabulary, w}},
          {f32, {o.context, w}},
          std::vector<Block<Spec>>(static_cast<size_t>(o.layers), block),
          norm};
}

Tensor forward(const Model<Tensor>& p, const Tensor& tokens, int64_t heads) {
  Tensor x = embedding(p.tokens, tokens) + embedding(p.positions, iota(tokens.shape(), 1));
  for (const Block<Tensor>& b : p.blocks) x = block(x, b, heads);
  return matmul(norm(x, p.norm), transpose(p.tokens));
}

Program make_program(const Options& o) {
  Program program;
  Model<State> model = program.states("", model_specs(o));
  nn::Optimizer<Model> optimizer(program, model_specs(o), adamw_of_matrices(), "adamw");
  Spec tokens("tokens", i32, {o.batch, o.context + 1});
  auto loss_from = [&](const Tensor& batch) {
    auto loss = [batch, o](Model<Tensor> p) { return loss_of(p, batch, o); };
    return [loss, o](Model<Tensor> p) { return o.autocast ? autocast(loss)(p) : loss(p); };
  };

  program.entry("init", {{"seed", u32, {2}}}, [&](Tensor seed) {
    init_model(model, seed, o);
    optimizer.init();
  });
  program.entry("step", {tokens}, [&](Tensor batch) -> Outputs {
    auto [value, gradients] = value_and_grad(loss_from(batch))(get(model));
    auto [clipped, size] = nn::clip_by_global_norm(gradients, 1.0);
    Tensor rate = nn::cosine_schedule(optimizer.step() + 1, {.peak = o.learning_rate,
                                                             .final = o.learning_rate / 10,
                                                             .warmup = std::max<int64_t>(o.steps / 100, 1),
                                                             .total = o.steps});
    optimizer.apply(model, clipped, rate);
    return {{"loss", value}, {"gradient_norm", size}};
  });
  program.entry("eval", {tokens}, [&](Tensor batch) -> Outputs { return {{"loss", loss_from(batch)(get(model))}}; });
  return program;
}

}  // namespace nabla::gpt2
