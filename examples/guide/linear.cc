// A linear model, trained step by step: tensors, state, entry points, saving.
#include <cstdio>

#include "frontend/nabla.h"

using nabla::Outputs;
using nabla::Tensor;

nabla::Program make_program() {
  nabla::Program program;
  nabla::State w = program.state("w", nabla::f32, {3});
  nabla::State steps = program.state("steps", nabla::i32, {});

  program.entry("init", {{"seed", nabla::u32, {2}}}, [&](Tensor seed) {
    w.set(nabla::rng_normal(seed, nabla::Shape{3}, nabla::f32));
    steps.set(nabla::zeros({}, nabla::i32));
  });

  program.entry("step", {{"x", nabla::f32, {8, 3}}, {"y", nabla::f32, {8}}}, [&](Tensor x, Tensor y) -> Outputs {
    auto loss = [&](Tensor p) {
      Tensor error = nabla::matmul(x, p) - y;
      return nabla::mean(error * error);
    };
    auto [value, gradient] = nabla::value_and_grad(loss)(w.get());
    w.set(w.get() - 0.1 * gradient);
    steps.set(steps.get() + 1);
    return {{"loss", value}, {"steps", steps.get()}};
  });

  program.entry("predict", {{"x", nabla::f32, {8, 3}}}, [&](Tensor x) -> Outputs {
    return {{"y", nabla::matmul(x, w.get())}};
  });
  return program;
}

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: %s FILE.nir\n", argv[0]), 2;
  try {
    make_program().save(argv[1]);
  } catch (const nabla::Error& e) {
    return std::fputs(e.what(), stderr), 1;
  }
}
