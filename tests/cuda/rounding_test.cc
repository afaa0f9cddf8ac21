// Conversions to floats of at most 16 bits round once in generated CUDA code, too, run thread by thread on this machine.
#include "tests/conformance/rounding.h"

#include <gtest/gtest.h>

#include "tests/conformance/cpu_run.h"
#include "tests/cuda/emulated_module.h"

namespace nabla {
namespace {

TEST(CudaRounding, HappensOnce) {
  std::vector<conformance::Conversion> conversions;
  for (conformance::Conversion c : conformance::float_conversions())
    if (bytes_of(c.from) >= 4 && bytes_of(c.to) <= 2) conversions.push_back(c);
  ir::Target target = ir::find_target("sm_90a").value();
  target.library = false;
  ir::Module planned =
      conformance::planned_for(conformance::conversions_module(conversions, false), target).value();
  emulator::EmulatedModule module = emulator::EmulatedModule::create(std::move(planned)).value();
  for (size_t i = 0; i < conversions.size(); ++i) {
    Literal x = conformance::values_near_ties(conversions[i]);
    Literal want = conformance::rounded_once(x, conversions[i].to);
    std::vector<Literal> state;
    emulator::Report report;
    auto got = module.run(module.planned().entries[i].name, {x}, state, {}, emulator::Way{}, report);
    ASSERT_TRUE(got.ok()) << to_string(got.errors());
    EXPECT_EQ(conformance::rounding_difference(x, want, (*got)[0]), "");
  }
}

}  // namespace
}  // namespace nabla
