// Signals end runs: loops that would not end by themselves, and long steps, whose state is kept whole.
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

// `step` counts before and behind a loop of half a second or more; `long` and `spin` take minutes, `spin` without state,
// and `products` seconds, one kernel after the other.
std::string bundle() {
  std::string text = R"(nabla 1 traced
state before: i32[]
state behind: i32[]
entry init calls @init {
  writes before, behind
}
entry step calls @step {
  reads before, behind
  writes before, behind
}
entry long calls @long {
  reads before, behind
  writes before, behind
}
entry look calls @look {
  reads before, behind
  outputs steps, loops
}
entry spin calls @spin {
  outputs y
}
entry products calls @products {
  outputs y
}
func @init() {
  %zero = constant() {value=i32[] {0}}
  return %zero, %zero
}
func @body(%x: f32[]) {
  %y = sin(%x)
  return %y
}
func @look(%before: i32[], %behind: i32[]) {
  return %before, %behind
}
)";
  for (const auto& [name, trips] : {std::pair("step", "20000000"), std::pair("long", "9000000000")})
    text += std::string("func @") + name + R"((%before: i32[], %behind: i32[]) {
  %one = constant() {value=i32[] {1}}
  %steps = add(%before, %one)
  %start = convert(%steps) {dtype=f32}
  %end = scan(%start) {body=@body, consts=0, carries=1, length=[)" + trips + R"(]}
  %whole = floor(%end)
  %zero = convert(%whole) {dtype=i32}
  %least = minimum(%zero, %one)
  %most = maximum(%least, %one)
  %loops = add(%behind, %most)
  return %steps, %loops
}
)";
  text += R"(func @spin() {
  %x = constant() {value=f32[] {1}}
  %y = scan(%x) {body=@body, consts=0, carries=1, length=[9000000000]}
  return %y
}
func @products() {
  %x0 = iota() {shape=[1024,1024], axis=0, dtype=f32}
)";
  const int products = 400;
  for (int i = 0; i < products; ++i)
    text += "  %x" + std::to_string(i + 1) + " = dot_general(%x" + std::to_string(i) +
            ", %x0) {lhs_contract=[1], rhs_contract=[0]}\n";
  text += "  return %x" + std::to_string(products) + "\n}\n";
  std::ofstream(e2e::scratch("long.nbl")) << text;
  std::string out = e2e::scratch("long.nbundle");
  e2e::must("cli/nablac compile " + e2e::scratch("long.nbl") + " --no-library -o " + out);
  return out;
}

// What a run prints that gets SIGTERM after a second; it has ended within some more, or this is a failure.
std::string terminated(const std::string& arguments) {
  e2e::Output out = e2e::run("{ cli/nabla-run " + arguments + " & run=$!; sleep 1; kill -TERM $run; date +sent=%s; " +
                             "wait $run; echo code=$?; date +ended=%s; } 2>&1");
  auto number = [&](const std::string& name) {
    size_t at = out.text.find(name + "=");
    return at == std::string::npos ? -1 : std::stol(out.text.substr(at + name.size() + 1));
  };
  EXPECT_EQ(number("code"), 130) << out.text;
  EXPECT_LE(number("ended") - number("sent"), 5) << out.text;
  return out.text;
}

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in:\n" << text;
}

TEST(Signals, EndALongStepWhoseStateNobodyKeeps) {
  std::string text = terminated(bundle() + " --entry long");
  expect_has(text, "error[E0805]: entry `long`: stopped by a signal inside its loop `scan`");
}

TEST(Signals, EndKernelAfterKernel) {
  std::string text = terminated(bundle() + " --entry products");
  expect_has(text, "error[E0805]: entry `products`: stopped by a signal before its instruction `");
}

TEST(Signals, LetAStepEndWhoseStateIsSaved) {
  std::string state = e2e::scratch("whole.safetensors");
  std::string text = terminated(bundle() + " --entry step --steps 1000000 --save-state " + state);
  expect_has(text, "error[E0805]: stopped by a signal before the work was done");
  expect_has(text, "the state is in " + state);
  std::string look = e2e::must("cli/nabla-run " + bundle() + " --state " + state + " --entry look");
  size_t steps = look.find("steps "), loops = look.find("loops ");
  ASSERT_TRUE(steps != std::string::npos && loops != std::string::npos) << look;
  EXPECT_GE(std::stoi(look.substr(steps + 6)), 1) << look;
  EXPECT_EQ(std::stoi(look.substr(steps + 6)), std::stoi(look.substr(loops + 6))) << look;
}

TEST(Signals, KeepTheStateThatARunWithoutStateLeaves) {
  std::string state = e2e::scratch("kept.safetensors");
  std::string text = terminated(bundle() + " --entry init --entry spin --save-state " + state);
  expect_has(text, "error[E0805]: entry `spin`: stopped by a signal inside its loop `scan`");
  expect_has(text, "the state is in " + state);
  expect_has(e2e::must("cli/nabla-run " + bundle() + " --state " + state + " --entry look"), "steps 0");
}

}  // namespace
}  // namespace nabla
