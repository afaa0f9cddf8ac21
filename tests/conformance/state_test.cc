// State leaves that depend on each other's old values, compiled and run.
#include <gtest/gtest.h>

#include "cli/driver/compile.h"
#include "frontend/nabla.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"

namespace nabla {
namespace {

// Momentum over a vector and a scalar: both leaves of the scalar are read and written by several kernels.
TEST(State, SmallLeavesMayReplaceEachOther) {
  Program program;
  State a = program.state("a", f32, {3}), b = program.state("b", f32, {3}), c = program.state("c", f32, {});
  program.entry("init", {}, [&](const std::vector<Tensor>&) {
    a.set(ones({3}));
    b.set(ones({3}) * 2.0);
    c.set(ones({}) * 3.0);
  });
  program.entry("step", {}, [&](const std::vector<Tensor>&) -> Outputs {
    Tensor x = a.get(), y = b.get(), z = c.get();
    a.set(y + z);
    b.set(x * 2.0);
    c.set(sum(x) + z);
    return {{"a", a.get()}, {"b", b.get()}, {"c", c.get()}};
  });
  driver::CompiledBundle compiled = driver::compile(program.module(), {}).value();
  auto bundle =
      format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(compiled.bytes)), "test").value();
  auto session = exec::Session::create(std::move(bundle), {.threads = 1}).value();
  ASSERT_TRUE(session->call(session->need_entry("init").value(), {}).ok());
  double x = 1, y = 2, z = 3;
  for (int step = 0; step < 4; ++step) {
    std::vector<Literal> got = session->call(session->need_entry("step").value(), {}).value();
    double next_x = y + z, next_y = x * 2, next_z = 3 * x + z;
    x = next_x, y = next_y, z = next_z;
    EXPECT_EQ(got[0].get(1), x) << step;
    EXPECT_EQ(got[1].get(2), y) << step;
    EXPECT_EQ(got[2].get(0), z) << step;
  }
}

}  // namespace
}  // namespace nabla
