// Conversions to floats round once: in the interpreter, and in compiled code of vectors, tails and scalars.
#include "tests/conformance/rounding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/ops/all_ops.h"
#include "ir/reference/interpreter.h"
#include "ir/text.h"
#include "tests/conformance/cpu_run.h"

namespace nabla::conformance {
namespace {

TEST(Rounding, OnceInTheInterpreterAndInCompiledCode) {
  std::vector<Conversion> all = float_conversions();
  ir::Module module = conversions_module(all, false);
  Compiled compiled = compile_for_cpu(module).value();
  for (size_t i = 0; i < all.size(); ++i) {
    Literal x = values_near_ties(all[i]), want = rounded_once(x, all[i].to);
    EXPECT_EQ(rounding_difference(x, want, ir::interpret(module, module.entries[i].name, {x}).value()[0]), "");
    EXPECT_EQ(rounding_difference(x, want, compiled.session->call(static_cast<int>(i), {x}).value()[0]), "");
    EXPECT_EQ(rounding_difference(x, want, x.converted(all[i].to)), "");
  }
}

TEST(Rounding, OnceInCompiledCodeOfScalars) {
  std::vector<Conversion> wide;
  for (Conversion c : float_conversions())
    if (bytes_of(c.from) == 8 && bytes_of(c.to) <= 2) wide.push_back(c);
  Compiled compiled = compile_for_cpu(conversions_module(wide, true)).value();
  for (size_t i = 0; i < wide.size(); ++i) {
    Literal all = values_near_ties(wide[i]);
    for (int64_t k = 0; k < all.size(); k += 3) {
      Literal x = Literal::from_bytes(all.dtype(), {},
                                      static_cast<const char*>(all.data()) + k * bytes_of(all.dtype()));
      Literal want = rounded_once(x, wide[i].to);
      ASSERT_EQ(rounding_difference(x, want, compiled.session->call(static_cast<int>(i), {x}).value()[0]), "");
    }
  }
}

// What jumps between neighbouring numbers sees narrow floats as they are stored, also where nothing is stored between: a row
// has its maximum among its elements, and the floor of a number is that of its stored bits.
TEST(Rounding, ComesBeforeWhatJumps) {
  for (const char* dtype : {"bf16", "f16"}) {
    SCOPED_TRACE(dtype);
    std::string text = fmt::format(R"(nabla 1 flat
entry main calls @f {{
  inputs x
  outputs s, ties, floor, below, whole
}}
func @f(%x: {0}[16,37]) -> ({0}[16,37], f32[16], {0}[16,37], bool[16,37], i32[16,37]) {{
  %t = sin(%x)
  %s = mul(%t, %x)
  %m = reduce_max(%s) {{axes=[1]}}
  %b = broadcast_in_dim(%m) {{shape=[16,37], dims=[0]}}
  %e = eq(%s, %b)
  %n = convert(%e) {{dtype=f32}}
  %ties = reduce_sum(%n) {{axes=[1]}}
  %floor = floor(%s)
  %below = lt(%s, %b)
  %whole = convert(%s) {{dtype=i32}}
  return %s, %ties, %floor, %below, %whole
}}
)",
                                   dtype);
    ir::Module module = ir::parse_module(text, "jumps.nbl", ops::all_ops()).value();
    Compiled compiled = compile_for_cpu(module).value();
    Literal x(module.functions[0]->type(module.functions[0]->params[0]).dtype, {16, 37});
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, std::sin(0.37 * static_cast<double>(i)) * 40);
    std::vector<Literal> out = compiled.session->call(0, {x}).value();
    for (int64_t row = 0; row < 16; ++row) {
      double most = -HUGE_VAL, ties = 0;
      for (int64_t i = row * 37; i < row * 37 + 37; ++i) most = std::max(most, out[0].get(i));
      for (int64_t i = row * 37; i < row * 37 + 37; ++i) {
        double s = out[0].get(i);
        ties += s == most;
        EXPECT_EQ(out[2].get(i), std::floor(s)) << i;
        EXPECT_EQ(out[3].get(i) != 0, s < most) << i;
        EXPECT_EQ(out[4].get(i), std::trunc(s)) << i;
      }
      EXPECT_EQ(out[1].get(row), ties) << row;
    }
  }
}

TEST(Rounding, OfATieGoesToEven) {
  Literal x(DType::kF64, {4});
  for (int i = 0; i < 4; ++i) x.set(i, 1 + (i < 2 ? 1 : 3) * 0x1p-11 + (i % 2) * 0x1p-40);
  Literal y = rounded_once(x, DType::kF16);
  EXPECT_EQ(y.get(0), 1);
  EXPECT_EQ(y.get(1), 1 + 0x1p-10);
  EXPECT_EQ(y.get(2), 1 + 0x1p-9);
  EXPECT_EQ(y.get(3), 1 + 0x1p-9);
}

}  // namespace
}  // namespace nabla::conformance
