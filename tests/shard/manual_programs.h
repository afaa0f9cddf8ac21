// Programs with manual regions that several tests run.
#pragma once

#include "frontend/nabla.h"

namespace nabla::shard_tests {

inline Tensor mlp(const Tensor& x, const Tensor& v, const Tensor& w) { return matmul(relu(matmul(x, v)), w); }

// Value and gradients of a loss of a function of three arrays.
template <class F>
ir::Module training(F f, const P& x, const P& v, const P& w) {
  Program program;
  program.mesh("pod", {{"dp", 2}, {"tp", 2}});
  program.entry("f", {{"x", f32, {4, 6}, x}, {"v", f32, {6, 8}, v}, {"w", f32, {8, 6}, w}},
                [&](Tensor a, Tensor b, Tensor c) -> Outputs {
                  auto loss = [&](Tensor p, Tensor q, Tensor r) {
                    Tensor y = f(p, q, r);
                    return mean(y * y);
                  };
                  auto [value, g] = value_and_grad(loss, wrt<0, 1, 2>)(a, b, c);
                  return {{"loss", value}, {"gx", std::get<0>(g)}, {"gv", std::get<1>(g)}, {"gw", std::get<2>(g)}};
                });
  return program.module();
}

/// Megatron's: the first product by columns, the second by rows, one sum.
inline ir::Module training_by_hand() {
  auto by_hand = [](Tensor x, Tensor v, Tensor w) {
    auto part = [](Tensor a, Tensor b, Tensor c) { return psum(mlp(a, b, c), "tp"); };
    return shard_map(part, {P("dp", ""), P("", "tp"), P("tp", "")}, {P("dp", "")})(x, v, w);
  };
  return training(by_hand, P("dp", ""), P("", "tp"), P("tp", ""));
}

/// Value and gradients of a loss of f, of microbatches x and four layers w.
template <class F>
ir::Module pipeline(F f) {
  Program program;
  program.mesh("ring", {{"r", 4}});
  program.entry("f", {{"x", f32, {5, 2, 3}}, {"w", f32, {4, 3, 3}}}, [&](Tensor x, Tensor w) -> Outputs {
    auto loss = [&](Tensor a, Tensor b) { return sum(sin(f(a, b))); };
    auto [value, g] = value_and_grad(loss, wrt<0, 1>)(x, w);
    return {{"loss", value}, {"gx", std::get<0>(g)}, {"gw", std::get<1>(g)}};
  });
  return program.module();
}

/// Stages of a pipeline, one per rank: a scan over ticks hands activations on.
inline ir::Module pipeline_by_hand() {
  auto stages = [](Tensor x, Tensor w) {  // x: all microbatches on every rank, w: a stage's own weights
    int64_t n = axis_size("r");
    std::vector<std::pair<int64_t, int64_t>> next;
    for (int64_t i = 0; i + 1 < n; ++i) next.push_back({i, i + 1});
    Tensor rank = axis_index("r"), own = reshape(w, {3, 3});
    Tensor padded = concatenate({x, zeros({3, 2, 3}, f32)}, 0);
    auto tick = [&](Tensor arrived, Tensor fresh) {
      Tensor y = tanh(matmul(select(rank == 0, fresh, arrived), own));
      return std::pair(ppermute(y, "r", next), y);
    };
    Tensor ys = scan(tick, zeros({2, 3}, f32), padded).second;
    Tensor last = select(rank == 3, ys, zeros_like(ys));
    return psum(slice(last, {3, 0, 0}, {8, 2, 3}), "r");
  };
  return pipeline([&](Tensor x, Tensor w) {
    return shard_map(stages, {P("", "", ""), P("r", "", "")}, {P("", "", "")})(x, w);
  });
}

}  // namespace nabla::shard_tests
