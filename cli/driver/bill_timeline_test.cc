// The predicted run of an entry on ranks: what is drawn adds up, and loops are open.
#include <gtest/gtest.h>

#include "cli/driver/compile.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::driver {
namespace {

ir::Timeline timeline_of(const std::string& text, const CompileOptions& options) {
  ir::Module m = ir::parse_module("nabla 1 traced\n" + text, "test.nbl", ops::all_ops()).value();
  return lower_module(m, options).value().bill.entries[0].timeline;
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
    return timeline_of(text, {.library = false, .overlap = overlap});
  };
  for (bool overlap : {false, true})
    for (int trips : {3, 1000}) {
      const ir::Timeline line = timeline(trips, overlap);
      std::string all;
      auto check = [&](const std::vector<ir::TimelinePiece>& pieces, double expected) {
        double end = 0, us = 0;
        for (const ir::TimelinePiece& piece : pieces) {
          all += piece.what + "\n", us += piece.us;
          EXPECT_GE(piece.begin_us, end - 0.01) << "one thing at a time: " << piece.what;
          end = piece.begin_us + piece.us;
        }
        EXPECT_LE(end, line.us * 1.001) << all.substr(0, 2000);
        EXPECT_LE(pieces.size(), 600u);
        EXPECT_NEAR(us, expected, 0.01 * us);
      };
      check(line.compute, line.compute_us);
      check(line.exchange, line.exchange_us);
      EXPECT_NE(all.find(fmt::format("all_reduce along {{dp}}, trip 2 of {} of scan", trips)), std::string::npos) << all.substr(0, 2000);
      EXPECT_EQ(all.find(" more trips") != std::string::npos, trips == 1000) << all.substr(0, 2000);
      EXPECT_EQ(line.exchange.size() == 3, trips == 3) << line.exchange.size();
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
  ir::Timeline line = timeline_of(text, {.library = false});
  ASSERT_EQ(line.exchange.size(), 1u);
  EXPECT_EQ(line.exchange[0].what, "all_reduce along {dp} of cond");
  std::string body;
  for (int i = 0; i < 600; ++i) body += fmt::format("  %a{0} = {1}(%a{2})\n", i + 1, i % 2 ? "exp" : "tanh", i);
  text = fmt::format("mesh pod = {{dp=2}}\nentry main calls @main {{\n  inputs x\n  outputs y\n}}\nfunc @body(%a0: f32[8,16]) {{\n{}"
                     "  return %a600\n}}\nfunc @main(%x: f32[8@dp,16]) {{\n"
                     "  %y = scan(%x) {{body=@body, consts=0, carries=1, length=[5]}}\n  return %y\n}}\n",
                     body);
  line = timeline_of(text, {.library = false, .fuse = false});
  ASSERT_EQ(line.compute.size(), 1u);
  EXPECT_EQ(line.compute[0].what, "scan x5");
  EXPECT_EQ(line.compute[0].us, line.compute_us);
}

}  // namespace
}  // namespace nabla::driver
