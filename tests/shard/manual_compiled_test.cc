// Programs with manual regions, compiled and run on threads: the numbers are those of the interpreter.
#include "cli/driver/compile.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/shard/manual_programs.h"
#include "tests/shard/manual_run.h"

namespace nabla::shard_tests {
namespace {

void expect_compiled(const ir::Module& traced, uint64_t seed) {
  ir::Module flat = flattened(traced);
  ASSERT_NE(flat.find("f"), nullptr);
  std::vector<Literal> args = random_args(*flat.find("f"), seed);
  Result<std::vector<Literal>> expected = ir::interpret(flat, "f", args);
  ASSERT_TRUE(expected.ok()) << to_string(expected.errors());
  Result<driver::CompiledBundle> bundle = driver::compile(traced, {.target = "cpu", .library = false, .jobs = 2});
  ASSERT_TRUE(bundle.ok()) << to_string(bundle.errors());
  auto session = exec::Session::create(
      format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bundle->bytes)), "test").value(),
      {.threads = 1});
  ASSERT_TRUE(session.ok()) << to_string(session.errors());
  auto got = (*session)->call((*session)->find_entry("f"), args);
  ASSERT_TRUE(got.ok()) << to_string(got.errors());
  expect_equal(*expected, *got);
}

TEST(ManualCompiled, AMegatronMlpWithItsGradient) { expect_compiled(training_by_hand(), 1); }
TEST(ManualCompiled, APipelineWithItsGradient) { expect_compiled(pipeline_by_hand(), 2); }

// All that ranks exchange, and their derivatives.
TEST(ManualCompiled, Collectives) {
  Program program;
  program.mesh("ring", {{"r", 4}});
  program.entry("f", {{"x", f32, {8, 4}}}, [](Tensor x) -> Outputs {
    auto part = [](Tensor a) {
      Tensor b = psum_scatter(all_gather(sin(a), "r"), "r") + all_to_all(all_to_all(a, "r", 1, 0), "r", 0, 1);
      Tensor c = ppermute(b, "r", {{0, 1}, {1, 2}, {3, 0}}) * convert(axis_index("r"), f32);
      return b * pmean(c, "r") + pmax(a, "r") - pmin(a * 2, "r");
    };
    auto loss = [&](Tensor y) { return sum(shard_map(part, {P("r", "")}, {P("r", "")})(y)); };
    auto [value, g] = value_and_grad(loss)(x);
    return {{"loss", value}, {"g", g}};
  });
  expect_compiled(program.module(), 3);
  std::vector<Literal> args = random_args(*program.module().find("f"), 3);
  run_manual(program.module(), args);
}

}  // namespace
}  // namespace nabla::shard_tests
