// Which convolutions of GPU programs a library computes, and what stands around them.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/kernel_ir/kernel.h"
#include "ir/op_def.h"
#include "ir/plan.h"
#include "tests/lower/lower_text.h"

namespace nabla::lower_tests {
namespace {

struct Pattern {
  const char *name, *params, *body;
  const char* calls;  ///< "forward", or several of them, in order
  int launches;
};

#define SAME "strides=[1, 1], padding_low=[1, 1], padding_high=[1, 1], dilation=[1, 1]"
constexpr const char* kForward = "%x: f32[4,9,8,6], %w: f32[3,3,6,10]";
constexpr const char* kBoth = "%x: f32[4,9,8,6], %w: f32[3,3,6,10], %g: f32[4,9,8,10]";

constexpr Pattern kPatterns[] = {
    // The filter is transposed by a kernel in front.
    {"Forward", kForward, " %y = convolution(%x, %w) {" SAME "}\n return %y\n", "forward", 1},
    {"InputGrad", "%g: f32[4,9,8,10], %w: f32[3,3,6,10]",
     " %y = conv_input_grad(%g, %w) {input_spatial=[9, 8], " SAME "}\n return %y\n", "input_grad", 1},
    {"FilterGrad", "%x: f32[4,9,8,6], %g: f32[4,9,8,10]",
     " %y = conv_filter_grad(%x, %g) {filter_spatial=[3, 3], " SAME "}\n return %y\n", "filter_grad", 1},
    {"OneFilterIsTransposedOnce", kBoth,
     " %y = convolution(%x, %w) {" SAME "}\n %d = conv_input_grad(%g, %w) {input_spatial=[9, 8], " SAME
     "}\n return %y, %d\n",
     "forward, input_grad", 1},
    {"TheTranspositionIsPartOfWhatMakesTheFilter", kForward,
     " %v = tanh(%w)\n %y = convolution(%x, %v) {" SAME "}\n return %y\n", "forward", 1},
    {"TheTranspositionIsPartOfWhatReadsTheGradient", "%x: f32[4,9,8,6], %g: f32[4,9,8,10], %w: f32[3,3,6,10]",
     " %d = conv_filter_grad(%x, %g) {filter_spatial=[3, 3], " SAME "}\n %y = sub(%w, %d)\n return %y\n", "filter_grad",
     1},
    {"AnActivationIsAKernel", kForward, " %y = convolution(%x, %w) {" SAME "}\n %z = relu(%y)\n return %z\n", "forward",
     2},
    {"OneDimension", "%x: f32[4,9,6], %w: f32[3,6,10]",
     " %y = convolution(%x, %w) {strides=[2], padding_low=[0], padding_high=[0], dilation=[2]}\n return %y\n",
     "forward", 1},
    {"Halves", "%x: bf16[4,9,8,6], %w: bf16[3,3,3,10]", " %y = convolution(%x, %w) {groups=2, " SAME "}\n return %y\n",
     "forward", 1},
    // No library for these.
    {"UnevenPadding", kForward,
     " %y = convolution(%x, %w) {strides=[1, 1], padding_low=[1, 0], padding_high=[1, 1], dilation=[1, 1]}\n"
     " return %y\n",
     "", 1},
    {"PaddingThatNothingReads", "%x: f32[4,9,8,6], %w: f32[2,2,6,10]",
     " %y = convolution(%x, %w) {strides=[2, 2], padding_low=[0, 0], padding_high=[0, 1], dilation=[1, 1]}\n"
     " return %y\n",
     "forward", 1},
    {"Doubles", "%x: f64[4,9,8,6], %w: f64[3,3,6,10]", " %y = convolution(%x, %w) {" SAME "}\n return %y\n", "", 1},
    {"Empty", "%x: f32[0,9,8,6], %w: f32[3,3,6,10]", " %y = convolution(%x, %w) {" SAME "}\n return %y\n", "", 1},
};

class LibraryConvolutions : public testing::TestWithParam<Pattern> {};

TEST_P(LibraryConvolutions, BecomeCallsWithAFallback) {
  Result<ir::Module> m = planned_for_gpu(function(GetParam().params, GetParam().body), "sm_90a");
  ASSERT_TRUE(m.ok()) << to_string(m.errors());
  std::string calls;
  int launches = 0;
  for (const ir::Node& n : m->functions[0]->nodes) {
    launches += n.op->name == "launch";
    if (n.op->name != "conv") continue;
    calls += (calls.empty() ? "" : ", ") + n.attrs.get_string("kind");
    const std::string& fallback = n.attrs.get_string("fallback");
    EXPECT_TRUE(std::any_of(m->kernels.begin(), m->kernels.end(), [&](const auto& k) {
      return k->name == fallback;
    })) << fallback;
    EXPECT_EQ(n.attrs.get_ints("order").size(), n.operands.size());
  }
  EXPECT_EQ(calls, GetParam().calls);
  EXPECT_EQ(launches, GetParam().launches);
}

INSTANTIATE_TEST_SUITE_P(Patterns, LibraryConvolutions, testing::ValuesIn(kPatterns),
                         [](const auto& info) { return std::string(info.param.name); });

// The generated gradient of a filter sums in slices, whose parts lie in the memory that the call has anyway.
TEST(LibraryConvolutions, PartsOfLongSumsLieInTheWorkspace) {
  ir::Module m = function("%x: f32[64,8,8,32], %g: f32[64,8,8,64]",
                          " %y = conv_filter_grad(%x, %g) {filter_spatial=[3, 3], " SAME "}\n return %y\n");
  Result<ir::Module> planned = planned_for_gpu(m, "sm_90a");
  ASSERT_TRUE(planned.ok()) << to_string(planned.errors());
  const ir::Node& call = planned->functions[0]->nodes[0];
  ASSERT_EQ(call.op->name, "conv");
  ASSERT_EQ(call.attrs.get_ints("scratch").size(), 1u);
  EXPECT_GT(call.attrs.get_ints("scratch")[0], 3 * 3 * 32 * 64 * 4);
  EXPECT_EQ(call.attrs.get_int("workspace"), int64_t{32} << 20);
}

}  // namespace
}  // namespace nabla::lower_tests
