// Debug prints of a program traced in C++: through nablac and nabla-run, step after step, and left out by an option.
#include <gtest/gtest.h>

#include <sstream>

#include "runtime/base/literal.h"
#include "runtime/format/npy.h"
#include "tests/e2e/commands.h"

namespace nabla {
namespace {

using e2e::must;
using e2e::scratch;
using std::string;

// The lines of `text` that begin with `entry`, a space and a number.
std::vector<string> printed(const string& text, const string& entry) {
  std::vector<string> out;
  std::istringstream lines(text);
  for (string line; std::getline(lines, line);)
    if (line.starts_with(entry + " ") && std::isdigit(static_cast<unsigned char>(line[entry.size() + 1])) != 0)
      out.push_back(line);
  return out;
}

string bundle_of(const string& options) {
  string module = scratch("debugging.nir"), bundle = scratch("debugging" + options + ".nbundle");
  must("examples/guide/debugging " + module);
  must("cli/nablac compile " + module + " " + options + " -o " + bundle);
  return bundle;
}

string trained(const string& bundle, int steps) {
  Literal x(DType::kF32, {4, 2});
  for (int64_t i = 0; i < 8; ++i) x.set(i, 0.5);
  string data = scratch("x.npy");
  EXPECT_TRUE(format::write_npy(data, x).ok());
  return must("cli/nabla-run " + bundle + " --entry step --steps " + std::to_string(steps) + " --input x=" + data);
}

TEST(DebugPrints, NameTheStep) {
  std::vector<string> lines = printed(trained(bundle_of(""), 12), "step");
  ASSERT_EQ(lines.size(), 12u);  // the derivative doubles none
  // w of [1, 1] is 0.8 times what it was, at each step.
  EXPECT_EQ(lines[0], "step 1: w [1, 1] loss 1.000");
  EXPECT_TRUE(lines[1].starts_with("step 2: w [0.9, 0.9] loss 0.810")) << lines[1];
  EXPECT_TRUE(lines[11].starts_with("step 12: w [0.31")) << lines[11];
  EXPECT_TRUE(lines[11].ends_with("loss 0.098")) << lines[11];
}

TEST(DebugPrints, OncePerIterationAndExample) {
  Literal xs(DType::kF32, {2, 3});
  for (int64_t i = 0; i < 6; ++i) xs.set(i, static_cast<double>(i));
  ASSERT_TRUE(format::write_npy(scratch("xs.npy"), xs).ok());
  string text = must("cli/nabla-run " + bundle_of("") + " --entry sums --input xs=" + scratch("xs.npy"));
  EXPECT_EQ(printed(text, "sums"),
            (std::vector<string>{"sums 1: 0 + 0", "sums 1: 0 + 3", "sums 1: 0 + 1", "sums 1: 3 + 4", "sums 1: 1 + 2",
                                 "sums 1: 7 + 5"}))
      << text;
}

TEST(DebugPrints, AreLeftOutByAnOption) {
  string with = bundle_of(""), without = bundle_of("--no-debug-prints");
  EXPECT_EQ(printed(trained(without, 3), "step").size(), 0u);
  EXPECT_NE(must("cli/nablac inspect " + with).find("debug"), string::npos);
  EXPECT_EQ(must("cli/nablac inspect " + without).find("debug  "), string::npos);
}

}  // namespace
}  // namespace nabla
