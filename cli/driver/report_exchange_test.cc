// The rows of what ranks exchange: what is sent is named, with its place, in buckets too.
#include "cli/driver/report_exchange.h"

#include <gtest/gtest.h>

#include "cli/driver/compile.h"
#include "cli/driver/report.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

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
  Json report = Json::parse(lower_module(ir::parse_module(text, "test.nbl", ops::all_ops()).value(), {}).value().report);
  const Json& rows = report["entries"][0]["collectives"];
  ASSERT_EQ(rows.size(), 1u) << rows;
  EXPECT_EQ(rows[0]["of"], "3 values");
  EXPECT_EQ(rows[0]["source"], "model.cc:8");
  EXPECT_EQ(rows[0]["values"], Json::parse(R"([{"of": "reduce_sum", "elements": 8, "source": "model.cc:8"},
                                               {"of": "reduce_sum", "elements": 1, "source": "model.cc:9"},
                                               {"of": "reduce_sum", "elements": 8, "source": "model.cc:11"}])"));
  const std::string shown = report_text(report.dump()).value();
  EXPECT_NE(shown.find("they are reduce_sum at model.cc:8, reduce_sum at model.cc:9, reduce_sum at model.cc:11\n"), std::string::npos)
      << shown;
}

}  // namespace
}  // namespace nabla::driver
