// The plans of partition: decisions that are made before a node is emitted.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "passes/shard/partition.h"
#include "passes/shard/propagate.h"

namespace nabla::shard_tests {
namespace {

std::string plan_of(const std::string& mesh, const std::string& functions) {
  Result<ir::Module> m = ir::parse_module("nabla 1 flat\nmesh m = {" + mesh + "}\n" + functions, "test.nbl", ops::all_ops());
  if (!m.ok()) return to_string(m.errors());
  ir::Target target;
  passes::PassContext context{ops::all_ops(), target};
  const ir::Module sharded = passes::propagate(*m, context).value();
  const std::string text = passes::partition_text(sharded, context).value();
  EXPECT_EQ(passes::partition_text(sharded, context).value(), text);
  return text;
}

TEST(PartitionPlan, AProductOverAShardedDimensionIsPendingUntilItIsNeeded) {
  EXPECT_EQ(plan_of("dp=2, tp=4", "func @f(%x: f32[8@dp,16@tp], %w: f32[16@tp,32]) {\n"
                                  "  %h = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}\n"
                                  "  %n = neg(%h)\n  %y = exp(%n)\n  return %y\n}\n"),
            "plan of @f\n"
            "  %h <{dp}, {}> + {tp} = dot_general, split: %x <{dp}, {tp}>, %w <{tp}, {}>\n"
            "  %n <{dp}, {}> + {tp} = neg, split: %h <{dp}, {}> + {tp}\n"
            "  %y <{dp}, {}> = exp, split: %n <{dp}, {}> + {tp} -> <{dp}, {}>\n");
}

TEST(PartitionPlan, AnOpWithARuleIsComputedByIt) {
  EXPECT_EQ(plan_of("tp=4", "func @f(%x: f32[8@tp,16]) {\n  %y = cumsum(%x) {axis=0}\n  return %y\n}\n"),
            "plan of @f\n  %y <{tp}, {}> = cumsum, by rule: %x <{tp}, {}>\n");
}

// The loop adds shares of the sum, and ranks combine them once after it.
TEST(PartitionPlan, ALoopLeavesTheSumOfItsSlicesPending) {
  EXPECT_EQ(plan_of("dp=2", "func @body(%g: f32[4], %x: f32[8@dp,4]) {\n"
                            "  %s = reduce_sum(%x) {axes=[0]}\n  %n = add(%g, %s)\n  return %n\n}\n"
                            "func @f(%g: f32[4], %xs: f32[3,8@dp,4]) {\n"
                            "  %y = scan(%g, %xs) {body=@body, consts=0, carries=1, length=[3]}\n  return %y\n}\n"),
            "plan of @body\n"
            "  %s <{}> + {dp} = reduce_sum, split: %x <{dp}, {}>\n"
            "  %n <{}> + {dp} = add, split: %g <{}> + {dp}, %s <{}> + {dp}\n"
            "plan of @f\n"
            "  %y <{}> + {dp} = scan, control: %g <{}> -> <{}> + {dp}, %xs <{}, {dp}, {}>\n");
}

}  // namespace
}  // namespace nabla::shard_tests
