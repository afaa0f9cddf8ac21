// How many kernels well-known patterns become, and when a kernel's result may lie where an operand lies.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/kernel_ir/kernel.h"
#include "ir/op_def.h"
#include "passes/lower/in_place.h"
#include "tests/lower/lower_text.h"

namespace nabla::lower_tests {
namespace {

struct Pattern {
  const char *name, *params, *body;
  int launches;
};

constexpr Pattern kPatterns[] = {
    {"SoftmaxAndResidual", "%x: f32[32,20], %r: f32[32,20]",
     "%s = softmax(%x) {axis=1}\n %y = add(%s, %r)\n return %y\n", 1},
    {"LayerNorm", "%x: f32[32,20], %g: f32[20], %b: f32[20]", "%y, %m, %r = layer_norm(%x, %g, %b)\n return %y\n", 1},
    {"LayerNormWithItsResiduals", "%x: f32[32,20], %g: f32[20], %b: f32[20]",
     "%y, %m, %r = layer_norm(%x, %g, %b)\n return %y, %m, %r\n", 1},
    {"ProductWithBiasAndRelu", "%x: f32[32,20], %w: f32[20,24], %b: f32[24]",
     "%d = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}\n %c = broadcast_in_dim(%b) {shape=[32,24], "
     "dims=[1]}\n"
     " %s = add(%d, %c)\n %y = relu(%s)\n return %y\n",
     1},
    {"ProductThatKeepsItsPreactivation", "%x: f32[32,20], %w: f32[20,24]",
     "%d = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}\n %y = tanh(%d)\n return %d, %y\n", 1},
    {"TwoProductsInARow", "%x: f32[32,20], %w: f32[20,24], %v: f32[24,8]",
     "%d = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}\n %t = tanh(%d)\n"
     " %y = dot_general(%t, %v) {lhs_contract=[1], rhs_contract=[0]}\n return %y\n",
     2},
    {"AdamW", "%p: f32[100], %g: f32[100], %m: f32[100], %v: f32[100], %t: i32[], %lr: f32[]",
     "%a, %b, %c = adamw_update(%p, %g, %m, %v, %t, %lr) {weight_decay=0.01}\n return %a, %b, %c\n", 1},
    {"ColumnSumOfAProduct", "%x: f32[64,20], %y: f32[64,20]",
     "%p = mul(%x, %y)\n %s = reduce_sum(%p) {axes=[0]}\n return %s\n", 1},
    {"TwoResultsOfOneChain", "%x: f32[32,20]", "%e = exp(%x)\n %n = neg(%e)\n return %e, %n\n", 1},
    {"AMapThatTwoOthersRead", "%x: f32[32,20], %y: f32[32,20]",
     "%e = exp(%x)\n %a = mul(%e, %y)\n %b = sub(%e, %y)\n return %a, %b\n", 1},
    {"ResultsOfOneTensor", "%x: f32[32,20], %s: f32[]",
     "%b = broadcast_in_dim(%s) {shape=[32,20], dims=[]}\n %p = add(%x, %b)\n %q = sin(%x)\n %r = mul(%q, %x)\n"
     " return %p, %q, %r\n",
     1},
    {"ResultsOfOneTensorAndOfOthers", "%x: f32[32,20], %y: f32[32,20], %z: f32[32,20]",
     "%p = add(%x, %y)\n %q = add(%x, %z)\n return %p, %q\n", 2},
    {"ResultsThatReadElsewhere", "%x: f32[20,20]",
     "%p = sin(%x)\n %t = transpose(%x) {permutation=[1,0]}\n %q = cos(%t)\n return %p, %q\n", 2},
    {"ResultsOfUnlikeWidths", "%x: f32[32,20]", "%p = sin(%x)\n %q = convert(%x) {dtype=f64}\n return %p, %q\n", 2},
    {"ResultsThatWaitForEachOther", "%x: f32[200,300]",
     "%p = sin(%x)\n %s = reduce_sum(%p) {axes=[0, 1]}\n %b = broadcast_in_dim(%s) {shape=[200,300], dims=[]}\n"
     " %q = add(%x, %b)\n return %p, %q\n",
     2},
    {"SumOfARowAndWhatFollows", "%x: f32[64,20]",
     "%s = reduce_sum(%x) {axes=[1]}\n %b = broadcast_in_dim(%s) {shape=[64,20], dims=[0]}\n %y = div(%x, %b)\n return "
     "%y\n",
     1},
    {"SumThatATransposedReaderSpreads", "%x: f32[400,300]",
     "%s = reduce_sum(%x) {axes=[1]}\n %b = broadcast_in_dim(%s) {shape=[300,400], dims=[1]}\n %e = exp(%b)\n return "
     "%s, %e\n",
     1},
    {"RowsAndThenColumns", "%x: f32[400,300]",
     "%e = exp(%x)\n %r = reduce_sum(%e) {axes=[1]}\n %c = reduce_sum(%e) {axes=[0]}\n return %r, %c\n", 2},
    {"SumOfEverythingThatRescalesItsTerms", "%x: f32[200,300]",
     "%e = exp(%x)\n %s = reduce_sum(%e) {axes=[0, 1]}\n %q = sqrt(%s)\n %b = broadcast_in_dim(%q) {shape=[200,300], "
     "dims=[]}\n"
     " %y = div(%e, %b)\n return %y\n",
     3},
};

class Fusion : public testing::TestWithParam<Pattern> {};

TEST_P(Fusion, NeedsThisManyKernels) {
  ir::Module m = fused(function(GetParam().params, GetParam().body));
  ASSERT_FALSE(m.functions.empty());
  int launches = 0;
  for (const ir::Node& n : m.functions[0]->nodes) launches += n.op->name == "launch";
  std::string kernels;
  for (const auto& k : m.kernels) kernels += kernel_ir::print(*k);
  EXPECT_EQ(launches, GetParam().launches) << kernels;
}

INSTANTIATE_TEST_SUITE_P(Patterns, Fusion, testing::ValuesIn(kPatterns),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Fusion, AKernelNeverWaitsForALibraryCallThatReadsItsOwnResult) {
  // h + h w: the sum reads h as an element and once more through the product.
  ir::Module m = function("%x: f32[64,64], %w: f32[64,64]",
                          "%h = tanh(%x)\n %d = dot_general(%h, %w) {lhs_contract=[1], rhs_contract=[0]}\n %y = "
                          "add(%h, %d)\n return %y, %h\n");
  Result<ir::Module> out = fused_with_library(m);
  ASSERT_TRUE(out.ok()) << to_string(out.errors());
  std::vector<std::string> ops;
  for (const ir::Node& n : out->functions[0]->nodes) ops.push_back(n.op->name);
  EXPECT_EQ(ops, (std::vector<std::string>{"launch", "gemm", "launch"}));
}

TEST(Fusion, EqualKernelsAreOne) {
  ir::Module m = fused(function("%x: f32[32], %y: f32[32]", "%a = exp(%x)\n %b = exp(%y)\n return %a, %b\n"));
  EXPECT_EQ(m.kernels.size(), 1u);
}

// What kernels of a GPU read and write, in their order: the dtypes of their buffers.
std::vector<std::string> gpu_kernels(const std::string& params, const std::string& body) {
  Result<ir::Module> m = planned_for_gpu(function(params, body), "sm_90a");
  EXPECT_TRUE(m.ok()) << to_string(m.errors());
  std::vector<std::string> out;
  if (!m.ok()) return out;
  for (const auto& k : m->kernels) {
    std::string text;
    for (const kernel_ir::Buffer& b : k->buffers)
      if (b.role != kernel_ir::BufferRole::kWorkspace)
        text += (b.role == kernel_ir::BufferRole::kIn ? "<" : ">") + std::string(name_of(b.dtype));
    out.push_back(text);
  }
  return out;
}

// The sum over rows of what is stored is a kernel of its own, whose threads walk beside each other; over columns it is not.
// Rows of a vocabulary's softmax: a block of an H100 holds them in shared memory, one of an RTX 30 does not. Each program lowers.
TEST(FusionOnGpus, RowsThatABlockDoesNotHoldAreFusedLess) {
  for (const char* dtype : {"f32", "bf16", "f64"})
    for (int columns : {4000, 12000, 16000, 32000, 50000})
      for (const char* target : {"compute_80", "sm_80", "sm_86", "sm_90a", "sm_120"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", dtype, columns, target));
        const std::string type = fmt::format("{}[2048,{}]", dtype, columns);
        ir::Module m = function("%x: " + type + ", %c: " + type,
                                "%s = softmax(%x) {axis=1}\n %l = log_softmax(%c) {axis=1}\n %p = mul(%s, %l)\n"
                                " %r = reduce_sum(%p) {axes=[1]}\n %b = broadcast_in_dim(%r) {shape=[2048," + std::to_string(columns) +
                                "], dims=[0]}\n %d = sub(%l, %b)\n %y = mul(%s, %d)\n return %y\n");
        Result<ir::Module> planned = planned_for_gpu(m, target);
        EXPECT_TRUE(planned.ok()) << to_string(planned.errors());
      }
}

TEST(FusionOnGpus, NoIterationWalksAlongAColumn) {
  auto body = [](int axis) {
    return fmt::format("%e = exp(%x)\n %s = reduce_sum(%e) {{axes=[{}]}}\n return %e, %s\n", axis);
  };
  EXPECT_EQ(gpu_kernels("%x: f32[2048,1024]", body(0)), (std::vector<std::string>{"<f32>f32", "<f32>f32"}));
  EXPECT_EQ(gpu_kernels("%x: f32[2048,1024]", body(1)), (std::vector<std::string>{"<f32>f32>f32"}));
  EXPECT_EQ(gpu_kernels("%x: f32[8,1024]", body(0)), (std::vector<std::string>{"<f32>f32>f32"}));
}

// The f32 of halves that two kernels read is made by both; that of f32, or of as many bytes, is stored.
TEST(FusionOnGpus, UsersComputeAgainWhatHasMoreBytesThanItsSources) {
  auto body = [](const char* value) {
    return fmt::format("{} %t = tanh(%f)\n %r = reduce_sum(%t) {{axes=[0]}}\n %c = reduce_max(%t) {{axes=[1]}}\n return %r, %c\n",
                       value);
  };
  EXPECT_EQ(gpu_kernels("%x: bf16[2048,1024]", body("%f = convert(%x) {dtype=f32}\n")),
            (std::vector<std::string>{"<bf16>f32", "<bf16>f32"}));
  EXPECT_EQ(gpu_kernels("%x: f32[2048,1024], %y: f32[2048,1024]", body("%f = add(%x, %y)\n")),
            (std::vector<std::string>{"<f32<f32>f32>f32", "<f32>f32"}));
}

// `may_share` of the first input and the first output of a kernel.
bool shares(const std::string& buffers, const std::string& body) {
  Result<kernel_ir::Kernel> k =
      kernel_ir::parse_kernel("kernel @k(" + buffers + ") {\n  axes i = 4, j = 4\n" + body + "}\n", "k.nbk");
  EXPECT_TRUE(k.ok()) << (k.ok() ? "" : to_string(k.errors()));
  if (!k.ok()) return false;
  auto is_out = [](const kernel_ir::Buffer& b) { return b.role == kernel_ir::BufferRole::kOut; };
  return passes::may_share(
      *k, 0, static_cast<int>(std::find_if(k->buffers.begin(), k->buffers.end(), is_out) - k->buffers.begin()));
}

constexpr const char* kSquare = "in x: f32[4,4], out y: f32[4,4]";

TEST(MayShare, HoldsWhereEachElementIsReadByItsOwnStore) {
  EXPECT_TRUE(shares(kSquare, "for i, j {\n store y[i, j] = x[i, j] * x[i, j]\n }\n"));
  EXPECT_TRUE(shares(kSquare, "for i {\n let m: f32 = max(j) x[i, j]\n store y[i, j] over j = x[i, j] - m\n }\n"));
  EXPECT_TRUE(shares("in x: f32[4,4], in z: f32[4,4], out y: f32[4,4]",
                     "for i, j {\n store y[i, j] = x[i, j] + z[j, i]\n }\n"));
  EXPECT_TRUE(shares("in x: i32[4], out y: f32[4]", "for i {\n store y[i] = convert.f32(x[i])\n }\n"));
}

TEST(MayShare, FailsWhereAnotherIterationReadsTheElement) {
  EXPECT_FALSE(shares(kSquare, "for i, j {\n store y[i, j] = x[j, i]\n }\n"));
  EXPECT_FALSE(shares(kSquare, "for i, j {\n store y[i, j] = x[i, j] + x[i, 0]\n }\n"));
  EXPECT_FALSE(shares(kSquare, "for i, j {\n store y[i, j] = x[i, j] + (x[i - 1, j] if i >= 1 else 0.0:f32)\n }\n"));
  EXPECT_FALSE(shares("in x: i64[4], out y: i64[4]", "for i {\n store y[i] = x[x[i]]\n }\n"));
}

TEST(MayShare, FailsWhereTheElementIsReadAfterItsStore) {
  EXPECT_FALSE(shares("in x: f32[4,4], out y: f32[4,4], out z: f32[4,4]",
                      "for i, j {\n store y[i, j] = 1.0:f32\n store z[i, j] = x[i, j]\n }\n"));
}

TEST(MayShare, FailsBetweenBuffersOfDifferentForm) {
  EXPECT_FALSE(shares("in x: f32[4], out y: f64[4]", "for i {\n store y[i] = convert.f64(x[i])\n }\n"));
  EXPECT_FALSE(shares("in x: f32[4], out y: f32[4,4]", "for i, j {\n store y[i, j] = x[i]\n }\n"));
}

}  // namespace
}  // namespace nabla::lower_tests
