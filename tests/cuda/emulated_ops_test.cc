// Every op's examples and some random draws as GPU kernels, run thread by thread on this machine, against the op's
// reference: the same bits in every order, and nothing for the checker to find; and once more with products and sums joined as
// NVRTC joins them. NABLA_DRAWS says how many draws.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "tests/conformance/cpu_run.h"
#include "tests/conformance/op_cases.h"
#include "tests/cuda/emulated_module.h"
#include "tests/nightly.h"
#include "tests/property/compare.h"
#include "tests/property/driver.h"

namespace nabla {
namespace {

constexpr size_t kOpsTogether = 6;  // in one source: the prelude is compiled once for all

// Loops and branches are the runtime's: gpu_control_test.cc. Kernels of the user's have a test of their own.
bool has_kernels_only(const std::string& name) {
  const ir::OpDef& op = ops::all_ops().get(name);
  return op.lower != ir::Lowering::kControl && op.lacks_reference == nullptr && !property::takes_function(op);
}

using Ops = std::vector<std::string>;

std::vector<Ops> groups() {
  std::vector<Ops> out;
  for (const std::string& op : conformance::ops_with_code()) {
    if (!has_kernels_only(op)) continue;
    if (out.empty() || out.back().size() == kOpsTogether) out.emplace_back();
    out.back().push_back(op);
  }
  return out;
}

class EmulatedOps : public testing::TestWithParam<Ops> {
 protected:
  void expect_right(emulator::Rounding rounding, const std::vector<emulator::Way>& ways);
};

void EmulatedOps::expect_right(emulator::Rounding rounding, const std::vector<emulator::Way>& ways) {
  std::vector<property::Case> cases;
  for (const std::string& op : GetParam()) {
    std::vector<property::Case> own = conformance::static_cases(op, NABLA_DRAWS);
    ASSERT_FALSE(own.empty()) << op;
    cases.insert(cases.end(), own.begin(), own.end());
  }
  ir::Target target = ir::find_target("sm_90a").value();
  target.library = false;
  auto planned = conformance::planned_for(conformance::module_of(cases), target);
  ASSERT_TRUE(planned.ok()) << to_string(planned.errors());
  auto module = emulator::EmulatedModule::create(std::move(*planned), rounding);
  ASSERT_TRUE(module.ok()) << to_string(module.errors());
  for (size_t i = 0; i < cases.size(); ++i)
    for (bool awkward : {false, true}) {
      const property::Case& c = cases[i];
      SCOPED_TRACE(c.str());
      std::vector<Literal> operands = c.values(awkward);
      std::vector<Literal> want = property::run_reference(c.typed(), operands, c.module);
      emulator::expect_in_every_way(
          *module, "case" + std::to_string(i), operands, {}, {}, want,
          [](const Literal& w, const Literal& g) { return property::difference(w, g).value_or(""); }, ways);
      if (HasFailure()) return;
    }
}

TEST_P(EmulatedOps, AgreeWithTheReferenceInEveryOrder) { expect_right(emulator::Rounding::kExact, emulator::every_way()); }
TEST_P(EmulatedOps, AgreeWhereProductsAndSumsAreJoined) {
  if (!is_nightly()) GTEST_SKIP() << "in tools/nightly";
  expect_right(emulator::Rounding::kGpu, {emulator::Way{}});
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedOps, testing::ValuesIn(groups()),
                         [](const auto& info) { return info.param.front() + "_to_" + info.param.back(); });

}  // namespace
}  // namespace nabla
