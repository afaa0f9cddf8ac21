// Looking at values while a program runs.
#include "examples/guide/guide.h"

using namespace nabla;  // NOLINT: a program, not a header

Program make_program() {
  Program program;
  State w = program.state("w", f32, {2});
  program.entry("init", {}, [&](const std::vector<Tensor>&) { w.set(ones({2})); });

  program.entry("step", {{"x", f32, {4, 2}}}, [&](Tensor x) -> Outputs {
    auto loss = [&](Tensor p) {
      Tensor out = matmul(x, p);
      Tensor mean_square = mean(out * out);
      debug_print("w {} loss {:.3f}", {p, mean_square});
      return mean_square;
    };
    auto [value, gradient] = value_and_grad(loss)(w.get());
    w.set(w.get() - 0.1 * gradient);
    return {{"loss", value}};
  });

  program.entry("sums", {{"xs", f32, {2, 3}}}, [](Tensor xs) -> Outputs {
    auto add = [](Tensor sum, Tensor x) {
      debug_print("{} + {}", {sum, x});
      return std::pair(sum + x, sum);
    };
    auto one = [&](Tensor row) { return std::get<0>(scan(add, zeros({}), row)); };
    return {{"sums", vmap(one)(xs)}};
  });
  return program;
}

int main(int argc, char** argv) { return guide::save(argc, argv, make_program); }
