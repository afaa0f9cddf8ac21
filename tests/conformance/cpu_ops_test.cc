// Every op's examples and some random draws, compiled and run, against the op's reference.
#include <gtest/gtest.h>

#include <limits>

#include "tests/conformance/cpu_run.h"
#include "tests/conformance/op_cases.h"
#include "tests/property/compare.h"
#include "tests/property/driver.h"

namespace nabla {
namespace {

class CpuOps : public testing::TestWithParam<std::string> {};

TEST_P(CpuOps, AgreesWithTheReference) {
  std::vector<property::Case> cases = conformance::static_cases(GetParam());
  ASSERT_FALSE(cases.empty());
  Result<conformance::Compiled> compiled = conformance::compile_for_cpu(conformance::module_of(cases));
  ASSERT_TRUE(compiled.ok()) << to_string(compiled.errors());
  for (size_t i = 0; i < cases.size(); ++i)
    for (bool awkward : {false, true}) {
      const property::Case& c = cases[i];
      std::vector<Literal> operands = c.values(awkward);
      std::vector<Literal> want = property::run_reference(c.typed(), operands, c.module);
      Result<std::vector<Literal>> got = compiled->session->call(static_cast<int>(i), operands);
      ASSERT_TRUE(got.ok()) << to_string(got.errors());
      for (size_t r = 0; r < want.size(); ++r) {
        property::Tolerance tolerance = property::default_tolerance(want[r].dtype());
        tolerance.zero_signs = c.operands.size() == 1 && c.op->category == "elementwise";
        EXPECT_EQ(property::difference(want[r], (*got)[r], tolerance).value_or(""), "") << c.str() << " result " << r;
      }
      if (HasFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(All, CpuOps, testing::ValuesIn(conformance::ops_with_code()),
                         [](const auto& info) { return info.param; });

// Padding adds nothing: an infinity in the other factor must not meet a zero there and give NaN.
TEST(CpuConvolutions, PaddingMeetsNoInfinity) {
  for (const char* op : {"convolution", "conv_input_grad", "conv_filter_grad"}) {
    std::vector<property::Case> cases = conformance::static_cases(op);
    std::erase_if(cases, [](const property::Case& c) { return !is_float(c.operands[1].type.dtype); });
    ASSERT_FALSE(cases.empty());
    auto compiled = conformance::compile_for_cpu(conformance::module_of(cases));
    ASSERT_TRUE(compiled.ok()) << to_string(compiled.errors());
    for (size_t i = 0; i < cases.size(); ++i) {
      std::vector<Literal> operands = cases[i].values(false);
      if (operands[1].size() == 0) continue;
      operands[1].set(0, std::numeric_limits<double>::infinity());
      operands[1].set(operands[1].size() - 1, -std::numeric_limits<double>::infinity());
      std::vector<Literal> want = property::run_reference(cases[i].typed(), operands, cases[i].module);
      Result<std::vector<Literal>> got = compiled->session->call(static_cast<int>(i), operands);
      ASSERT_TRUE(got.ok()) << to_string(got.errors());
      property::Tolerance tolerance = property::default_tolerance(want[0].dtype());
      EXPECT_EQ(property::difference(want[0], (*got)[0], tolerance).value_or(""), "") << cases[i].str();
    }
  }
}

}  // namespace
}  // namespace nabla
