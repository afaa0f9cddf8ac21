// Transforms: derivatives, batches, and both.
#include "examples/guide/guide.h"

using namespace nabla;  // NOLINT: a program, not a header

Program make_program() {
  Program program;
  auto loss = [](Tensor w, Tensor x) { return log(sum(exp(w * x))); };

  program.entry("each", {{"w", f32, {3}}, {"xs", f32, {10, 3}}}, [&](Tensor w, Tensor xs) -> Outputs {
    return {{"gradients", vmap(grad(loss), {.in_axes = {unmapped, 0}})(w, xs)}};  // one per example: f32[10,3]
  });

  program.entry("second", {{"w", f32, {3}}, {"x", f32, {3}}}, [&](Tensor w, Tensor x) -> Outputs {
    return {{"jacobian", jacrev([](Tensor v) { return softmax(v, -1); })(x)}, {"hessian", hessian(loss)(w, x)}};
  });
  return program;
}

int main(int argc, char** argv) { return guide::save(argc, argv, make_program); }
