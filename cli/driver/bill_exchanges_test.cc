// The collectives of a bill: the values in a bucket are named, with their places.
#include <gtest/gtest.h>

#include "cli/driver/compile.h"
#include "cli/driver/report.h"
#include "ir/bill/names.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::driver {
namespace {

TEST(Exchanges, ABucketSaysWhatLiesInIt) {
  const std::string text = R"(nabla 1 traced
mesh pod = {dp=2}
entry main calls @main {
  inputs x, y
  outputs s, t, u
}
func @main(%x: f32[4@dp,8], %y: f32[4@dp]) {
  %s = reduce_sum(%x) {axes=[0]} loc("model.cc":8)
  %t = reduce_sum(%y) {axes=[0]} loc("model.cc":9)
  %m = mul(%x, %x)
  %u = reduce_sum(%m) {axes=[0]} loc("model.cc":11)
  return %s, %t, %u
}
)";
  const CompiledModule made = lower_module(ir::parse_module(text, "test.nbl", ops::all_ops()).value(), {}).value();
  const ir::Exchanges& all = made.bill.entries[0].exchanges;
  ASSERT_EQ(all.rows.size(), 1u);
  EXPECT_EQ(all.rows[0].of, "3 values");
  EXPECT_EQ(ir::place_of(all.rows[0].location), "model.cc:8");
  std::vector<std::tuple<std::string, int64_t, std::string>> values;
  for (const ir::BucketValue& v : all.rows[0].values) values.emplace_back(v.of, v.elements, ir::place_of(v.location));
  EXPECT_EQ(values, (std::vector<std::tuple<std::string, int64_t, std::string>>{
                        {"reduce_sum", 8, "model.cc:8"}, {"reduce_sum", 1, "model.cc:9"}, {"reduce_sum", 8, "model.cc:11"}}));
  EXPECT_EQ(all.sent_bytes, all.rows[0].sent_bytes);
  const std::string shown = report_text(made.report).value();
  EXPECT_NE(shown.find("they are reduce_sum at model.cc:8, reduce_sum at model.cc:9, reduce_sum at model.cc:11\n"), std::string::npos)
      << shown;
}

}  // namespace
}  // namespace nabla::driver
