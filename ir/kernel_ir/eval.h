// Slow evaluation of scalar expressions and of an op's meaning: what generated code is compared with.
#pragma once

#include <functional>
#include <vector>

#include "ir/kernel_ir/fragment.h"
#include "runtime/base/literal.h"

namespace nabla::kernel_ir {

/// One element: `f` for float dtypes, `i` for the others.
struct Scalar {
  double f = 0;
  int64_t i = 0;
};

/// Reads and writes of a running kernel, as the evaluator sees them.
struct Memory {
  std::function<Scalar(int tensor, const std::vector<int64_t>& at)> load;
  std::function<Scalar(int value, const std::vector<int64_t>& at)> value;
};

/// An expression flattened into evaluation order. Float arithmetic is done in double and rounded to f32 or f64 at
/// each step (16-bit floats are computed in f32, as the targets do, and rounded by whoever stores them).
class Evaluator {
 public:
  explicit Evaluator(const Expr& e);
  /// `axes[a]` is the position on axis a.
  Scalar run(const std::vector<int64_t>& axes, const Memory& memory);

 private:
  struct Step {
    Expr expr;
    std::vector<int> args;
    int guard = -1, fill = -1;
  };
  Scalar eval(const Step& step, const std::vector<int64_t>& axes, const Memory& memory);
  std::vector<Step> steps_;
  std::vector<Scalar> results_;
  std::vector<Scalar> operands_;  // those of one call; kept, since every element needs the room again
  std::vector<int64_t> at_;       // the position of one load, kept likewise
};

/// combine(a, b) as the scalar function of the combiner does.
Scalar combine(Combiner combiner, DType dtype, Scalar a, Scalar b);
Scalar get(const Literal& literal, int64_t offset);
void set(Literal& literal, int64_t offset, Scalar v);

/// All definitions of a fragment with static extents; the result is the op's results in order.
std::vector<Literal> interpret(const Fragment& fragment, const std::vector<Literal>& operands);

}  // namespace nabla::kernel_ir
