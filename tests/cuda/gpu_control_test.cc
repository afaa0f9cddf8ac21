// Ops that run functions (loops, branches, calls), with the runtime on the fake GPU: their examples and draws give what
// the op's reference gives, when they are issued and when they are replayed.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/driver/emit_program.h"
#include "ir/ops/all_ops.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/conformance/cpu_run.h"
#include "tests/conformance/op_cases.h"
#include "tests/cuda/fake_gpu.h"
#include "tests/property/compare.h"
#include "tests/property/driver.h"

namespace nabla {
namespace {

std::vector<std::string> ops_that_run_functions() {
  std::vector<std::string> out;
  for (const std::string& name : conformance::ops_with_code()) {
    const ir::OpDef& op = ops::all_ops().get(name);
    bool functions = op.lower == ir::Lowering::kControl || property::takes_function(op);
    if (functions && op.lacks_reference == nullptr) out.push_back(name);
  }
  return out;
}

std::unique_ptr<exec::Session> session_of(const ir::Module& module) {
  ir::Target target = ir::find_target("sm_90a").value();
  target.library = false;
  ir::Module planned = conformance::planned_for(module, target).value();
  auto program = driver::emit_program(planned, target, {{2, codegen::cache_directory()}, {}});
  NABLA_CHECK(program.ok(), "{}", to_string(program.errors()));
  std::string driver = fmt::format("{}/{}/tests/cuda/fake_driver/libfake_cuda.so", std::getenv("TEST_SRCDIR"),
                                   std::getenv("TEST_WORKSPACE"));
  Status ready = emulator::use_fake_gpu(program->bytes, driver);
  NABLA_CHECK(ready.ok(), "{}", to_string(ready.errors()));
  auto bundle = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(program->bytes)), "test");
  auto session = exec::Session::create(std::move(*bundle), {.threads = 1});
  NABLA_CHECK(session.ok(), "{}", to_string(session.errors()));
  return std::move(*session);
}

class GpuControl : public testing::TestWithParam<std::string> {};

TEST_P(GpuControl, AgreesWithTheReference) {
  std::vector<property::Case> cases = conformance::static_cases(GetParam());
  ASSERT_FALSE(cases.empty());
  auto session = session_of(conformance::module_of(cases));
  for (size_t i = 0; i < cases.size(); ++i) {
    const property::Case& c = cases[i];
    SCOPED_TRACE(c.str());
    std::vector<Literal> operands = c.values(/*awkward=*/false);
    std::vector<Literal> want = property::run_reference(c.typed(), operands, c.module);
    for (int run = 0; run < 3; ++run) {
      Result<std::vector<Literal>> got = session->call(static_cast<int>(i), operands);
      ASSERT_TRUE(got.ok()) << to_string(got.errors());
      ASSERT_EQ(property::difference(want, *got).value_or(""), "") << "run " << run;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuControl, testing::ValuesIn(ops_that_run_functions()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace nabla
