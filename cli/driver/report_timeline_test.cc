// The predicted run of an entry on ranks: what is drawn adds up, and loops are open.
#include "cli/driver/report_timeline.h"

#include <gtest/gtest.h>

#include "cli/driver/compile.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

Json report_of(const std::string& text, const CompileOptions& options) {
  ir::Module m = ir::parse_module("nabla 1 traced\n" + text, "test.nbl", ops::all_ops()).value();
  return Json::parse(lower_module(m, options).value().report);
}

// Trips of a loop follow each other piece by piece; where they are too many the others are one piece on each line.
TEST(Timeline, LoopsOpenOnTheTimeline) {
  auto timeline = [](int trips, bool overlap) {
    std::string text = fmt::format(R"(mesh pod = {{dp=2}}
entry main calls @main {{
  inputs x, w
  outputs y
}}
func @layer(%h: f32[8,16], %w: f32[16,16]) {{
  %p = dot_general(%h, %w) {{lhs_contract=[1], rhs_contract=[0]}}
  %s = reduce_sum(%p) {{axes=[0]}}
  %b = broadcast_in_dim(%s) {{dims=[1], shape=[8, 16]}}
  %n = add(%p, %b)
  return %n
}}
func @main(%x: f32[8@dp,16], %w: f32[{0},16,16]) {{
  %y = scan(%x, %w) {{body=@layer, consts=0, carries=1, length=[{0}]}}
  return %y
}}
)",
                                   trips);
    return report_of(text, {.library = false, .overlap = overlap})["entries"][0]["timeline"];
  };
  for (bool overlap : {false, true})
    for (int trips : {3, 1000}) {
      Json line = timeline(trips, overlap);
      std::string all = line.dump(1);
      double us[] = {0, 0};
      for (const char* which : {"compute", "exchange"}) {
        double end = 0;
        for (const Json& piece : line[which]) {
          us[which[0] == 'e'] += piece[1].get<double>();
          EXPECT_GE(piece[0].get<double>(), end - 0.01) << "one thing at a time: " << piece;
          end = piece[0].get<double>() + piece[1].get<double>();
        }
        EXPECT_LE(end, line["us"].get<double>() * 1.001) << all.substr(0, 2000);
        EXPECT_LE(line[which].size(), 600u);
      }
      EXPECT_NEAR(us[0], line["compute_us"], 0.01 * us[0]);
      EXPECT_NEAR(us[1], line["exchange_us"], 0.01 * us[1]);
      EXPECT_NE(all.find(fmt::format("all_reduce along {{dp}}, trip 2 of {} of scan", trips)), std::string::npos) << all.substr(0, 2000);
      EXPECT_EQ(all.find(" more trips") != std::string::npos, trips == 1000) << all.substr(0, 2000);
      EXPECT_EQ(line["exchange"].size() == 3, trips == 3) << line["exchange"].size();
    }
}

// A branch is its longer side; a body of more pieces than are drawn stays closed, so that loops of loops end.
TEST(Timeline, BranchesOpenAndLargeBodiesDoNot) {
  std::string text = R"(mesh pod = {dp=2}
entry main calls @main {
  inputs c, x
  outputs y
}
func @short(%x: f32[8,16]) {
  %y = exp(%x)
  return %y
}
func @long(%x: f32[8,16]) {
  %s = reduce_sum(%x) {axes=[0]}
  %b = broadcast_in_dim(%s) {dims=[1], shape=[8, 16]}
  return %b
}
func @main(%c: bool[], %x: f32[8@dp,16]) {
  %y = cond(%c, %x) {then=@short, else=@long}
  return %y
}
)";
  Json line = report_of(text, {.library = false})["entries"][0]["timeline"];
  ASSERT_EQ(line["exchange"].size(), 1u) << line;
  EXPECT_EQ(line["exchange"][0][2], "all_reduce along {dp} of cond");
  std::string body;
  for (int i = 0; i < 600; ++i) body += fmt::format("  %a{0} = {1}(%a{2})\n", i + 1, i % 2 ? "exp" : "tanh", i);
  text = fmt::format("mesh pod = {{dp=2}}\nentry main calls @main {{\n  inputs x\n  outputs y\n}}\nfunc @body(%a0: f32[8,16]) {{\n{}"
                     "  return %a600\n}}\nfunc @main(%x: f32[8@dp,16]) {{\n"
                     "  %y = scan(%x) {{body=@body, consts=0, carries=1, length=[5]}}\n  return %y\n}}\n",
                     body);
  line = report_of(text, {.library = false, .fuse = false})["entries"][0]["timeline"];
  ASSERT_EQ(line["compute"].size(), 1u) << line;
  EXPECT_EQ(line["compute"][0][2], "scan x5");
  EXPECT_EQ(line["compute"][0][1], line["compute_us"]);
}

}  // namespace
}  // namespace nabla::driver
