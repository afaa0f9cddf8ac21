// Sums that are pending, behind the nodes that make them.
#include "cli/driver/sharded_text.h"

#include <gtest/gtest.h>

#include "cli/driver/compile.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::driver {
namespace {

std::string text_of(const std::string& body, const std::string& mesh = "mesh pod = {dp=2, tp=4}\n") {
  ir::Module m = ir::parse_module("nabla 1 traced\n" + mesh + body, "test.nbl", ops::all_ops()).value();
  ir::Target cpu = ir::find_target("cpu").value();
  ir::Module made = simplify_module(m, cpu, {}, ir::Stage::kSharded).value();
  std::string text = sharded_text(made, cpu).value();
  EXPECT_EQ(ir::print(ir::parse_module(text, "again.nbl", ops::all_ops()).value()), ir::print(made)) << "it is text of the module";
  return text;
}

bool says(const std::string& text, const std::string& line) { return text.find(line) != std::string::npos; }

// Linear ops hand a sum on; what is not linear needs it whole.
TEST(ShardedText, NamesPendingSums) {
  std::string text = text_of(R"(entry main calls @f {
  inputs x, w
  outputs y
}
func @f(%x: f32[8@dp,4@tp], %w: f32[4@tp,6]) {
  %h = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %t = reverse(%h) {axes=[1]}
  %y = relu(%t)
  return %y
}
)");
  EXPECT_TRUE(says(text, "rhs_contract=[0]} : f32[8@dp,6]  // sum over {tp} pending\n")) << text;
  EXPECT_TRUE(says(text, "reverse(%h) {axes=[1]} : f32[8@dp,6]  // sum over {tp} pending\n")) << text;
  EXPECT_TRUE(says(text, "relu(%t) : f32[8@dp,6]\n")) << text;
}

// What a body adds up in its carry is pending in the loop's result.
TEST(ShardedText, LoopsLeaveSumsToTheirEnd) {
  std::string text = text_of(R"(entry main calls @f {
  inputs c, xs
  outputs y
}
func @f(%c: f32[4], %xs: f32[3,4,8@dp]) {
  %y = scan(%c, %xs) {body=@body, carries=1, length=[3]}
  %z = exp(%y)
  return %z
}
func @body(%c: f32[4], %x: f32[4,8]) {
  %s = reduce_sum(%x) {axes=[1]}
  %d = add(%c, %s)
  return %d
}
)");
  EXPECT_TRUE(says(text, "length=[3]} : f32[4]  // sum over {dp} pending\n")) << text;
  EXPECT_TRUE(says(text, "add(%c, %s) : f32[4]  // sum over {dp} pending\n")) << text;
}

TEST(ShardedText, WithoutAMeshNothingIsSaid) {
  EXPECT_FALSE(says(text_of("entry main calls @f {\n  inputs x\n  outputs y\n}\nfunc @f(%x: f32[8]) {\n  %y = reduce_sum(%x) {axes=[0]}\n  "
                            "return %y\n}\n", ""),
                    "//"));
}

}  // namespace
}  // namespace nabla::driver
