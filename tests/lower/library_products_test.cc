// Which matrix products of GPU programs a library computes, and what it does to them on the way.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/kernel_ir/kernel.h"
#include "ir/op_def.h"
#include "ir/plan.h"
#include "ir/library/gemm.h"
#include "tests/lower/lower_text.h"

namespace nabla::lower_tests {
namespace {

struct Pattern {
  const char *name, *params, *body;
  const char* gemms;  ///< "bias gelu", or several of them, in order
  int launches;
};

#define DOT " %d = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}\n"
#define BIAS " %c = broadcast_in_dim(%b) {shape=[32,24], dims=[1]}\n %s = add(%d, %c)\n"
constexpr const char* kMatrices = "%x: f32[32,20], %w: f32[20,24]";
constexpr const char* kBiased = "%x: f32[32,20], %w: f32[20,24], %b: f32[24]";

constexpr const char* kResidual = "%x: f32[32,20], %w: f32[20,24], %r: f32[32,24]";

constexpr Pattern kPatterns[] = {
    {"Alone", kMatrices, DOT " return %d\n", "none", 0},
    {"Transposed", "%x: f32[20,32], %w: f32[24,20]",
     " %d = dot_general(%x, %w) {lhs_contract=[0], rhs_contract=[1]}\n return %d\n", "none", 0},
    {"Bias", kBiased, DOT BIAS " return %s\n", "bias none", 0},
    {"BiasFirst", kBiased, DOT " %c = broadcast_in_dim(%b) {shape=[32,24], dims=[1]}\n %s = add(%c, %d)\n return %s\n",
     "bias none", 0},
    {"Relu", kMatrices, DOT " %y = relu(%d)\n return %y\n", "relu", 0},
    {"BiasAndRelu", kBiased, DOT BIAS " %y = relu(%s)\n return %y\n", "bias relu", 0},
    {"BiasAndGelu", kBiased, DOT BIAS " %y = gelu(%s) {approximate=\"tanh\"}\n return %y\n", "bias gelu", 0},
    {"Gelu", kMatrices, DOT " %y = gelu(%d) {approximate=\"tanh\"}\n return %y\n", "gelu", 0},
    // Not what the library has.
    {"GeluByErf", kBiased, DOT BIAS " %y = gelu(%s) {approximate=\"none\"}\n return %y\n", "bias none", 1},
    {"Tanh", kMatrices, DOT " %y = tanh(%d)\n return %y\n", "none", 1},
    {"BiasBehindRelu", kBiased,
     DOT " %r = relu(%d)\n %c = broadcast_in_dim(%b) {shape=[32,24], dims=[1]}\n %y = add(%r, %c)\n return %y\n",
     "relu", 1},
    {"Residual", kResidual, DOT " %y = add(%d, %r)\n return %y\n", "add none", 0},
    {"ResidualBehindABias", "%x: f32[32,20], %w: f32[20,24], %r: f32[32,24], %b: f32[24]",
     DOT BIAS " %t = add(%r, %s)\n %y = relu(%t)\n return %y\n", "bias add relu", 0},
    {"ResidualOfAnotherShape", "%x: f32[4,8,20], %w: f32[20,24], %r: f32[4,8,24]",
     " %d = dot_general(%x, %w) {lhs_contract=[2], rhs_contract=[0]}\n %y = add(%d, %r)\n return %y\n", "add none", 0},
    {"ResidualsOfABatch", "%x: f32[4,8,20], %w: f32[4,20,24], %r: f32[4,8,24]",
     " %d = dot_general(%x, %w) {lhs_contract=[2], rhs_contract=[1], lhs_batch=[0], rhs_batch=[0]}\n"
     " %y = add(%r, %d)\n return %y\n",
     "add none", 0},
    {"TwoProductsAreAdded", "%x: f32[32,20], %w: f32[20,24], %v: f32[32,24], %u: f32[24,24]",
     DOT " %e = dot_general(%v, %u) {lhs_contract=[1], rhs_contract=[0]}\n %y = add(%d, %e)\n return %y\n",
     "none, add none", 0},
    {"ResidualOfDoubles", "%x: f64[32,20], %w: f64[20,24], %r: f64[32,24]", DOT " %y = add(%d, %r)\n return %y\n",
     "add none", 0},
    {"OneResidual", "%x: f32[32,20], %w: f32[20,24], %r: f32[32,24], %q: f32[32,24]",
     DOT " %t = add(%d, %r)\n %y = add(%t, %q)\n return %y\n", "add none", 1},
    // The addition computes it on its way.
    {"ResidualThatIsComputed", kResidual, DOT " %e = exp(%r)\n %y = add(%d, %e)\n return %y\n", "none", 1},
    {"TwiceTheProduct", kMatrices, DOT " %y = add(%d, %d)\n return %y\n", "none", 1},
    {"BiasOfRows", "%x: f32[32,20], %w: f32[20,24], %b: f32[32]",
     DOT " %c = broadcast_in_dim(%b) {shape=[32,24], dims=[0]}\n %y = add(%d, %c)\n return %y\n", "none", 1},
    {"BiasOfRowsOfASquare", "%x: f32[24,20], %w: f32[20,24], %b: f32[24]",
     DOT " %c = broadcast_in_dim(%b) {shape=[24,24], dims=[0]}\n %y = add(%d, %c)\n return %y\n", "none", 1},
    // Somebody else reads what lies between.
    {"PreactivationIsKept", kBiased, DOT BIAS " %y = relu(%s)\n return %s, %y\n", "bias none", 1},
    {"ProductIsKept", kBiased, DOT BIAS " return %d, %s\n", "none", 1},
    // Batches and dimensions that are merged for the product.
    {"ThreeDimensions", "%x: f32[4,8,20], %w: f32[20,24], %b: f32[24]",
     " %d = dot_general(%x, %w) {lhs_contract=[2], rhs_contract=[0]}\n"
     " %c = broadcast_in_dim(%b) {shape=[4,8,24], dims=[2]}\n %s = add(%d, %c)\n"
     " %y = gelu(%s) {approximate=\"tanh\"}\n return %y\n",
     "bias gelu", 0},
    {"BatchesTakeNoBias", "%x: f32[4,8,20], %w: f32[4,20,24], %b: f32[24]",
     " %d = dot_general(%x, %w) {lhs_contract=[2], rhs_contract=[1], lhs_batch=[0], rhs_batch=[0]}\n"
     " %c = broadcast_in_dim(%b) {shape=[4,8,24], dims=[2]}\n %y = add(%d, %c)\n return %y\n",
     "none", 1},
    {"TwoLayers", "%x: f32[32,20], %w: f32[20,24], %v: f32[24,8]",
     DOT " %h = relu(%d)\n %y = dot_general(%h, %v) {lhs_contract=[1], rhs_contract=[0]}\n return %y\n", "relu, none",
     0},
    {"Halves", "%x: bf16[32,20], %w: bf16[20,24], %b: bf16[24]", DOT BIAS " return %s\n", "bias none", 0},
    {"DoublesTakeNoEpilogue", "%x: f64[32,20], %w: f64[20,24]", DOT " %y = relu(%d)\n return %y\n", "none", 1},
    // No library for these.
    {"Integers", "%x: i32[32,20], %w: i32[20,24]", DOT " return %d\n", "", 1},
    {"ASum", "%x: f32[20], %w: f32[20]", " %d = dot_general(%x, %w) {lhs_contract=[0], rhs_contract=[0]}\n return %d\n",
     "", 1},
};

class LibraryProducts : public testing::TestWithParam<Pattern> {};

TEST_P(LibraryProducts, TakeWhatFollowsThem) {
  Result<ir::Module> m = planned_for_gpu(function(GetParam().params, GetParam().body), "sm_90a");
  ASSERT_TRUE(m.ok()) << to_string(m.errors());
  std::string gemms;
  int launches = 0;
  for (const ir::Node& n : m->functions[0]->nodes) {
    launches += n.op->name == "launch";
    if (n.op->name != "gemm") continue;
    const std::string& activation = n.attrs.get_string("activation");
    ir::GemmProblem p = *ir::gemm_problem(n, *m->functions[0]);
    gemms += (gemms.empty() ? "" : ", ") + std::string(p.bias ? "bias " : "") + (p.addend ? "add " : "") + activation;
    const std::string& fallback = n.attrs.get_string("fallback");
    EXPECT_TRUE(std::any_of(m->kernels.begin(), m->kernels.end(), [&](const auto& k) {
      return k->name == fallback;
    })) << fallback;
    EXPECT_EQ(n.attrs.get_ints("order").size(), n.operands.size());
  }
  EXPECT_EQ(gemms, GetParam().gemms);
  EXPECT_EQ(launches, GetParam().launches);
}

INSTANTIATE_TEST_SUITE_P(Patterns, LibraryProducts, testing::ValuesIn(kPatterns),
                         [](const auto& info) { return std::string(info.param.name); });

// One after the other, products share their workspace; the plan has room for one that starts at a multiple of 256.
TEST(LibraryProducts, TheirWorkspaceIsPlanned) {
  ir::Module m =
      function(kMatrices, DOT " %e = dot_general(%x, %d) {lhs_contract=[0], rhs_contract=[0]}\n return %e\n");
  for (auto [target, bound] : {std::pair("sm_80", int64_t{4} << 20), std::pair("sm_90a", int64_t{32} << 20)}) {
    Result<ir::Module> planned = planned_for_gpu(m, target);
    ASSERT_TRUE(planned.ok()) << to_string(planned.errors());
    int64_t values = 32 * 24 * 4;
    EXPECT_GE(planned->plan->arena_bytes, bound + values) << target;
    EXPECT_LE(planned->plan->arena_bytes, bound + values + 256) << target;
  }
}

// Gradients are summed where their sum lies; what is a factor too, is not overwritten.
TEST(LibraryProducts, SumUpInPlace) {
  for (const char* factor : {"%x", "%sum"}) {
    std::string text = std::string(R"(state sum: f32[32,32]
entry step calls @step {
  reads sum
  writes sum
  inputs x, y
}
func @step(%sum: f32[32,32], %x: f32[32,32], %y: f32[32,32]) {
  %d = dot_general()") +
                       factor + R"(, %y) {lhs_contract=[0], rhs_contract=[0]}
  %new = add(%sum, %d)
  return %new
}
)";
    Result<ir::Module> m = planned_for_gpu(flat(text), "sm_90a");
    ASSERT_TRUE(m.ok()) << to_string(m.errors());
    const ir::Function& f = *m->find("step");
    const ir::FunctionPlan& plan = m->plan->functions.at("step");
    int gemms = 0;
    for (const ir::Node& n : f.nodes) {
      if (n.op->name != "gemm") continue;
      ++gemms;
      EXPECT_TRUE(ir::gemm_problem(n, f)->addend && n.operands.size() == 3);
      bool same = plan.values[n.results[0]].offset == plan.values[f.params[0]].offset;
      EXPECT_EQ(same, std::string(factor) == "%x") << factor;
    }
    EXPECT_EQ(gemms, 1);
  }
}

// Equal layers have one kernel for all of their fallbacks, and what became no call leaves none behind.
TEST(LibraryProducts, EqualProductsShareTheirFallback) {
  ir::Module m = function("%x: f32[32,32], %w: f32[32,32]",
                          " %d = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}\n"
                          " %e = dot_general(%d, %w) {lhs_contract=[1], rhs_contract=[0]}\n return %e\n");
  Result<ir::Module> planned = planned_for_gpu(m, "sm_90a");
  ASSERT_TRUE(planned.ok()) << to_string(planned.errors());
  EXPECT_EQ(planned->kernels.size(), 1u);
}

}  // namespace
}  // namespace nabla::lower_tests
