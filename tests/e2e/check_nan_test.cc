// nabla-run --check-nan on compiled programs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime/format/npy.h"
#include "tests/e2e/commands.h"

namespace nabla {
namespace {

using e2e::run;
using e2e::scratch;
using std::string;

/// A [4, 8] array of ones but for x[3, 0].
string array(double corner) {
  Literal x(DType::kF32, {4, 8});
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, i == 24 ? corner : 1);
  EXPECT_TRUE(format::write_npy(scratch("x.npy"), x).ok());
  return scratch("x.npy");
}

string compiled(const string& name, const string& text, const string& options = "") {
  setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
  std::ofstream(scratch(name + ".nbl")) << "nabla 1 traced\n" << text;
  auto made = run("cli/nablac compile " + scratch(name + ".nbl") + " -o " + scratch(name + ".nbundle") + options);
  EXPECT_EQ(made.code, 0) << made.text;
  return "cli/nabla-run " + scratch(name + ".nbundle") + " --output y=" + scratch("y.npy");
}

// The kernel is named and located by the logarithm; its operand is that of the product, which is fused into it.
TEST(CheckNan, ALogarithmTwoOperationsDeepIsFound) {
  string command = compiled("log",
                            "symbol batch in [1, 64]\n"
                            "entry f calls @f {\n  inputs x\n  outputs y\n}\n"
                            "func @f(%x: f32[batch,8]) {\n"
                            "  %p = dot_general(%x, %x) {lhs_contract=[1], rhs_contract=[1]} loc(\"model.cc\":3)\n"
                            "  %l = log(%p) loc(\"model.cc\":4:3 \"loss\" \"auto l = log(p);\")\n"
                            "  %y = dot_general(%l, %x) {lhs_contract=[1], rhs_contract=[0]} loc(\"model.cc\":5)\n"
                            "  return %y\n}\n");
  EXPECT_EQ(run(command + " --check-nan --input x=" + array(2)).code, 0);
  string bad = array(-20);  // x[3] . x[i] = 7 - 20
  EXPECT_EQ(run(command + " --input x=" + bad).code, 0);
  auto found = run(command + " --check-nan --input x=" + bad);
  EXPECT_EQ(found.code, 1);
  for (const char* part :
       {"error[E0708]: entry `f`: result 0 of `", "has 6 NaNs and 0 infinities among 16 elements of f32; ",
        "the first is element 3, NaN", "  --> model.cc:4  in loss\n   | auto l = log(p);\n",
        "   = note: operand 0, 32 elements of f32: -20 to 1, no NaN\n"})
    EXPECT_NE(found.text.find(part), string::npos) << part << "\n" << found.text;
}

// One kernel for the chain is found by its end; with a kernel for every op it is the root that is found.
TEST(CheckNan, UnfusedProgramsNameTheOpOfAChain) {
  string text =
      "entry f calls @f {\n  inputs x\n  outputs y\n}\n"
      "func @f(%x: f32[4,8]) {\n"
      "  %a = abs(%x)\n"
      "  %l = log(%a)\n"
      "  %r = sqrt(%l)\n"
      "  %y = exp(%r)\n"
      "  return %y\n}\n";
  string bad = " --check-nan --input x=" + array(0.5);  // log(0.5) is negative
  auto fused = run(compiled("fused", text) + bad);
  EXPECT_EQ(fused.code, 1);
  EXPECT_NE(fused.text.find("help: see the operands' ranges; compile with --no-fuse"), string::npos) << fused.text;
  auto found = run(compiled("alone", text, " --no-fuse") + bad);
  EXPECT_EQ(found.code, 1);
  for (const char* part : {"result 0 of `sqrt` has 1 NaN and 0 infinities among 32 elements of f32", "alone.nbl:9",
                           "  %r = sqrt(%l)",  // the text's own place, as its nodes name none
                           "   = note: operand 0, 32 elements of f32: -0.693147 to 0, no NaN\n"})
    EXPECT_NE(found.text.find(part), string::npos) << part << "\n" << found.text;
}

TEST(CheckNan, ALoopStopsAtTheFirstTripThatOverflows) {
  string command = compiled("loop",
                            "entry f calls @f {\n  inputs x\n  outputs y\n}\n"
                            "func @cell(%h: f32[4,8]) {\n"
                            "  %s = mul(%h, %h) loc(\"model.cc\":7)\n  return %s\n}\n"
                            "func @f(%x: f32[4,8]) {\n"
                            "  %y = scan(%x) {body=@cell, carries=1, length=[9]} loc(\"model.cc\":9)\n"
                            "  return %y\n}\n");
  EXPECT_EQ(run(command + " --check-nan --input x=" + array(1)).code, 0);
  auto found = run(command + " --check-nan --input x=" + array(-100));  // 1e2, 1e4, ... 1e32, 1e64
  EXPECT_EQ(found.code, 1);
  for (const char* part : {"has 0 NaNs and 1 infinity among 32 elements of f32; the first is element 24, infinity",
                           "  --> model.cc:7\n", "   = note: operand 0, 32 elements of f32: 1 to 1e+32, no NaN\n"})
    EXPECT_NE(found.text.find(part), string::npos) << part << "\n" << found.text;
}

}  // namespace
}  // namespace nabla
