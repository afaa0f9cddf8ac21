// A signal ends a run that would not end by itself.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "tests/e2e/commands.h"

namespace nabla {
namespace {

TEST(Signals, EndALoopThatNeverEnds) {
  std::ofstream(e2e::scratch("loop.nbl")) << R"(nabla 1 traced
entry p calls @p {
  inputs x
  outputs z
}
func @cond(%x: f32[]) -> (bool[]) {
  %h = constant() {value=f32[] {100}}
  %0 = lt(%x, %h)
  return %0
}
func @body(%x: f32[]) -> (f32[]) {
  %0 = add(%x, %x)
  return %0
}
func @p(%x: f32[]) -> (f32[]) {
  %0 = while(%x) {cond=@cond, body=@body}
  return %0
}
)";
  e2e::must("cli/nablac compile " + e2e::scratch("loop.nbl") + " -o " + e2e::scratch("loop.nbundle"));
  auto start = std::chrono::steady_clock::now();
  e2e::Output out = e2e::run("{ cli/nabla-run " + e2e::scratch("loop.nbundle") +
                             " --input x=0 & run=$!; sleep 1; kill -TERM $run; wait $run; echo code $?; }");
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 30);
  EXPECT_NE(out.text.find("error[E0805]: entry `p`: stopped by a signal inside its loop `while`"), std::string::npos)
      << out.text;
  EXPECT_NE(out.text.find("code 1"), std::string::npos) << out.text;
}

}  // namespace
}  // namespace nabla
