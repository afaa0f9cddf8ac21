// Functions that bring their own rules, or are computed again instead of kept.
#include "examples/guide/guide.h"

using namespace nabla;  // NOLINT: a program, not a header

Program make_program() {
  Program program;
  program.entry("gradient", {{"x", f32, {8, 4}}, {"m", f32, {4, 4}}}, [](Tensor x, Tensor m) -> Outputs {
    auto clipped = custom_vjp([](Tensor v) { return v; },                             // the function
                              [](Tensor v) { return std::pair(v, std::tuple<>()); },  // forward: result, residuals
                              [](std::tuple<>, Tensor ct) { return std::tuple(clip(ct, -1.0, 1.0)); });
    auto block = remat([](Tensor v, Tensor w) { return tanh(matmul(v, w)); }, save_dots());
    return {{"g", grad([&](Tensor w) { return sum(clipped(block(x, w))); })(m)}};
  });
  return program;
}

int main(int argc, char** argv) { return guide::save(argc, argv, make_program); }
