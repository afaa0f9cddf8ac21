// What a GPU's program is expected to take, without machine code: kernels, library calls, and their sum over what an entry runs.
#include <gtest/gtest.h>

#include "cli/driver/compile.h"
#include "cli/driver/report.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::driver {
namespace {

CompiledModule lowered(const std::string& text, const CompileOptions& options) {
  ir::Module m = ir::parse_module("nabla 1 traced\n" + text, "test.nbl", ops::all_ops()).value();
  return lower_module(m, options).value();
}

// Of a run: what launches there are, and what they take by their schedules, without machine code.
TEST(Prediction, PredictionsAddUp) {
  std::string text = R"(
entry main calls @main {
  inputs x, a, b
  outputs y, z
}
func @step(%x: f32[4096,4096]) { %y = tanh(%x)  return %y }
func @main(%x: f32[4096,4096], %a: bf16[4096,4096], %b: bf16[4096,4096]) {
  %l = scan(%x) {body=@step, consts=0, carries=1, length=[50]}
  %z = dot_general(%a, %b) {lhs_contract=[1], rhs_contract=[0]}
  return %l, %z
}
)";
  const CompiledModule made = lowered(text, {.target = "sm_90a"});
  const ir::EntryBill& e = made.bill.entries[0];
  const ir::Prediction& p = e.predicted;
  const double map = 2.0 * 4096 * 4096 * 4 / 3000e3 + 1.25;
  const double product = 2.0 * 4096 * 4096 * 4096 / (989e6 * 0.79) + 3.0 * 4096 * 4096 * 2 / 3000e3 + 1.25;
  EXPECT_NEAR(made.bill.library_calls[0].predicted_us, product, 1e-3);
  EXPECT_NEAR(p.library_us, product, 1e-3);
  EXPECT_NEAR(p.us, 50 * map + product, 0.01 * product);
  EXPECT_EQ(p.launches, 51);
  EXPECT_FALSE(p.counted);
  EXPECT_NEAR(p.sectors, (50 * 2.0 * 4096 * 4096 * 4 + 3.0 * 4096 * 4096 * 2) / 32, 1);
  EXPECT_GT(p.us, e.least.us);
  std::string shown = report_text(made.report).value();
  EXPECT_NE(shown.find(" the ridge of 330 for bf16: bytes decide\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find(" of it by libraries: 51 launches, "), std::string::npos) << shown;
  EXPECT_NE(shown.find("; without machine code, by schedules alone\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find(", at least 44.7 us, predicted 46.0 us\n"), std::string::npos) << shown;
}

}  // namespace
}  // namespace nabla::driver
