// Conversions to floats round once: in the interpreter, and in compiled code of vectors, tails and scalars.
#include "tests/conformance/rounding.h"

#include <gtest/gtest.h>

#include "ir/reference/interpreter.h"
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
