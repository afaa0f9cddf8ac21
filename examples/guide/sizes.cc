// Sizes that runs choose.
#include "examples/guide/guide.h"

using namespace nabla;  // NOLINT: a program, not a header

Program make_program() {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 64);
  ir::Dim len = program.symbol("len", 8, 128, /*multiple=*/8);

  program.entry("pool", {{"x", f32, {batch, len, 16}}}, [](Tensor x) -> Outputs {
    return {{"means", mean(x, {1})}, {"probabilities", softmax(x, 1)}};
  });
  return program;
}

int main(int argc, char** argv) { return guide::save(argc, argv, make_program); }
