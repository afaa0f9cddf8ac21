#include "bench/deep_module.h"

#include <cmath>

#include "examples/charlm/charlm.h"

namespace nabla::bench {

ir::Module deep_module(int layers) {
  Program program;
  std::vector<charlm::Block<State>> blocks;
  for (int i = 0; i < layers; ++i) blocks.push_back(program.states(fmt::format("block{}", i), charlm::block_specs()));
  program.entry("step", {{"x", f32, {4, 32, charlm::kWidth}}}, [&](Tensor x) -> Outputs {
    std::vector<Tensor> parameters;
    for (auto& b : blocks)
      for (auto& [name, leaf] : leaves_of<State>(b)) parameters.push_back(leaf->get());
    auto loss = [&](std::vector<Tensor> p) {
      Tensor y = x;
      size_t next = 0;
      for (int i = 0; i < layers; ++i) {
        charlm::Block<Tensor> b;
        for (auto& [name, leaf] : leaves_of<Tensor>(b)) *leaf = p[next++];
        y = charlm::block(b, y);
      }
      return mean(y * y);
    };
    auto [value, gradients] = value_and_grad(loss)(parameters);
    size_t next = 0;
    for (auto& b : blocks)
      for (auto& [name, leaf] : leaves_of<State>(b)) leaf->set(leaf->get() - 0.01 * gradients[next++]);
    return {{"loss", value}};
  });
  return program.module();
}

double growth(const std::vector<int>& layers, const std::vector<double>& seconds) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    double u = std::log(layers[i]), v = std::log(seconds[i]);
    n += 1, x += u, y += v, xx += u * u, xy += u * v;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

}  // namespace nabla::bench
