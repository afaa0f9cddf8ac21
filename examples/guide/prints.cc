// Looking inside a program while it runs.
#include "examples/guide/guide.h"

using namespace nabla;  // NOLINT: a program, not a header

Program make_program() {
  Program program;
  State w = program.state("w", f32, {2});
  program.entry("init", {}, [&](const std::vector<Tensor>&) { w.set(ones({2})); });

  program.entry("step", {{"x", f32, {4, 2}}}, [&](Tensor x) -> Outputs {
    auto loss = [&](Tensor v) {
      Tensor y = matmul(x, v);
      debug_print("y {:.1f}", {y});
      return mean(y * y);
    };
    auto [value, gradient] = value_and_grad(loss)(w.get());
    debug_print("loss {:.4f}, gradient {:.2f}", {value, gradient});
    w.set(w.get() - 0.1 * gradient);
    return {{"loss", value}};
  });

  program.entry("count", {{"n", i32, {}}}, [](Tensor n) -> Outputs {
    auto body = [](Tensor i, Tensor sum) {
      debug_print("trip {} begins with {}", {i, sum});
      return sum + i;
    };
    return {{"sum", fori_loop(0, 3, body, n)}};
  });
  return program;
}

int main(int argc, char** argv) { return guide::save(argc, argv, make_program); }
