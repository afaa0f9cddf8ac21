// Branches and loops. Bodies are lambdas, traced once.
#include "examples/guide/guide.h"

using namespace nabla;  // NOLINT: a program, not a header

Program make_program() {
  Program program;

  program.entry("collatz", {{"start", i32, {}}}, [](Tensor start) -> Outputs {
    auto halve = [](Tensor n) { return n / 2; };
    auto grow = [](Tensor n) { return 3 * n + 1; };
    auto [n, count] =
        while_loop([](const auto& s) { return s.first > 1; },
                   [&](const auto& s) { return std::pair(cond(s.first % 2 < 1, halve, grow, s.first), s.second + 1); },
                   std::pair(start, start * 0));
    return {{"count", count}};
  });

  program.entry("rnn", {{"w", f32, {4, 4}}, {"xs", f32, {16, 4}}}, [](Tensor w, Tensor xs) -> Outputs {
    auto cell = [&](Tensor h, Tensor x) {  // w is closed over
      Tensor next = tanh(matmul(w, h) + x);
      return std::pair(next, next);
    };
    auto [last, hs] = scan(cell, zeros({4}), xs);
    return {{"last", last}, {"hs", hs}};
  });

  program.entry("power", {{"m", f32, {4, 4}}}, [](Tensor m) -> Outputs {
    auto square = [](Tensor, Tensor p) { return matmul(p, p); };
    return {{"m8", fori_loop(0, 3, square, m)}};
  });
  return program;
}

int main(int argc, char** argv) { return guide::save(argc, argv, make_program); }
