// Meshes and layouts of a traced program.
#include "frontend/cpp/sharding.h"

#include "frontend/cpp/manual.h"
#include "frontend/cpp/nn.h"
#include "frontend/cpp/ops.h"
#include "frontend/cpp/program.h"
#include "frontend/cpp/test_values.h"
#include "frontend/cpp/transforms.h"
#include "ir/text.h"
#include "ir/verifier.h"

namespace nabla {
namespace {

TEST(Sharding, LayoutsAreWrittenWhereTheyWereSaid) {
  Program program;
  program.mesh("pod", {{"dp", 2}, {"tp", 4}});
  ir::Dim batch = program.symbol("batch", 2, 64, 2);
  State w = program.state("w", f32, {16, 8}, P("", "tp"));
  program.entry("step", {{"x", f32, {batch, 16}, P("dp", open())}}, [&](Tensor x) -> Outputs {
    Tensor h = shard(matmul(x, w.get()), P("dp", open({"tp"})));
    return {{"y", sum(h)}};
  });
  std::string text = ir::print(program.module());
  for (const char* part :
       {"mesh pod = {dp=2, tp=4}\n", "state w: f32[16@{},8@tp]\n", "%x: f32[batch@dp,16]", "{sharding=<dp, {tp, ?}>}"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_TRUE(ir::verify(program.module()).ok());
}

TEST(Sharding, TheGradientOfALayoutIsThatLayout) {
  Program program;
  program.mesh("pod", {{"dp", 2}});
  program.entry("f", {{"x", f32, {4}}}, [&](Tensor x) -> Outputs {
    return {{"g", grad([](Tensor y) { return sum(shard(y * y, P("dp"))); })(x)}};
  });
  EXPECT_TRUE(ir::verify(program.module()).ok());
}

template <class F>
std::string refusal(F f) {
  try {
    f();
    return "ok";
  } catch (const Error& e) {
    return e.diagnostics()[0].message;
  }
}

TEST(Sharding, WhatDoesNotFitIsRefusedAtItsLine) {
  Program program;
  auto none = [](Tensor) -> Outputs { return {}; };
  EXPECT_EQ(refusal([&] { program.state("w", f32, {4}, P("dp")); }),
            "state leaf w is laid out as <dp>, and the program has no mesh");
  EXPECT_EQ(refusal([&] { program.mesh("pod", {{"dp", 2}, {"dp", 2}}); }), "mesh pod: two axes are named dp");
  program.mesh("pod", {{"dp", 2}, {"tp", 3}});
  EXPECT_EQ(refusal([&] { program.mesh("rack", {{"dp", 2}}); }), "mesh rack: the program is for mesh pod already");
  EXPECT_EQ(refusal([&] { program.state("w", f32, {4}, P("tp")); }),
            "state leaf w: dimension 0 of f32[4] has 4 elements, which 3 shards along {tp} do not divide");
  EXPECT_EQ(refusal([&] {
              program.entry("f", {{"x", f32, {4, 4}, P("dp", "dp")}}, none);
            }).substr(0, 17),
            "input x of entry ");
  ir::Dim n = program.symbol("n", 1, 8);
  EXPECT_EQ(refusal([&] {
              program.entry("f", {{"x", f32, {n}, P("dp")}}, none);
            }),
            "input x of entry f: dimension 0 of f32[n] may not be divisible into 2 shards along {dp}");
}

TEST(Sharding, UnevenShardsAreAskedFor) {
  Program program;
  program.mesh("pod", {{"dp", 2}, {"tp", 3}});
  State w = program.state("w", f32, {4, 10}, P("", "tp").allow_padding());
  program.entry("step", {{"x", f32, {5, 4}, P("dp", "").allow_padding()}}, [&](Tensor x) -> Outputs {
    return {{"y", shard(matmul(x, w.get()), P("dp", "tp").allow_padding())}};
  });
  std::string text = ir::print(program.module());
  for (const char* part : {"state w: f32[4@{},10@tp] allow_padding", "f32[5@dp,4@{}] allow_padding", "sharding=<dp, tp> allow_padding"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

// A function that was written for whole arrays: the error says which of its arguments are parts, and of what.
TEST(Sharding, ShapesThatDoNotFitInARegionSayWhoseParts) {
  auto notes = [](auto f) {
    try {
      Program program;
      program.mesh("pod", {{"dp", 2}, {"tp", 3}});
      program.entry("f", {{"x", f32, {8, 6}}}, [&](Tensor x) -> Outputs {
        return {{"y", shard_map([&](Tensor a) { return f(a, x); }, {P("dp", "")}, {P("dp", "")})(x)}};
      });
    } catch (const Error& e) {
      return e.diagnostics()[0].notes;
    }
    return std::vector<std::string>();
  };
  const std::string part = "argument 0 of the shard_map is the part f32[4,6] of f32[8,6], laid out as <dp, {}>";
  for (const std::vector<std::string>& said : {notes([](Tensor a, Tensor) { return reshape(a, {6, 8}); }),
                                               notes([](Tensor a, Tensor x) { return a + x; })})
    EXPECT_EQ(std::count(said.begin(), said.end(), part), 1);
}

// Where a collective may stand, and which layouts a region has.
TEST(Sharding, RegionsAreCheckedAtTheLineOfTheUser) {
  auto in_entry = [](auto f) {
    return refusal([&] {
      Program program;
      program.mesh("pod", {{"dp", 2}, {"tp", 3}});
      program.entry("f", {{"x", f32, {8, 6}}}, [&](Tensor x) -> Outputs { return {{"y", f(x)}}; });
    });
  };
  auto same = [](Tensor x) { return x; };
  EXPECT_EQ(in_entry([](Tensor x) { return psum(x, "dp"); }),
            "psum along dp: the function is not written for the ranks of a mesh");
  EXPECT_EQ(in_entry([&](Tensor x) { return shard_map([](Tensor a) { return psum(a, "tp"); }, {P("", "")}, {P("", "")}, {"dp"})(x); }),
            "psum along tp: the region around it is written for the ranks along {dp} alone");
  EXPECT_EQ(in_entry([&](Tensor x) { return shard_map([](Tensor a) { return psum(a, "ep"); }, {P("", "")}, {P("", "")})(x); }),
            "psum: mesh pod has no axis `ep`; did you mean `dp`?");
  EXPECT_EQ(in_entry([&](Tensor x) { return shard_map(same, {P("tp", "")}, {P("tp", "")})(x); }),
            "shard_map: argument 0 %x: dimension 0 of f32[8,6] has 8 elements, which 3 shards along {tp} do not divide");
  EXPECT_EQ(in_entry([&](Tensor x) { return shard_map(same, {}, {P("", "")})(x); }),
            "shard_map: in_specs has 0 layouts, its arguments have 1 tensors");
  EXPECT_EQ(in_entry([&](Tensor x) { return shard_map(same, {P("dp", "")}, {})(x); }),
            "shard_map: out_specs has 0 layouts, its result has 1 tensors");
  auto twice = [&](Tensor x) { return shard_map(same, {P("dp", "")}, {P("dp", "")}, {"dp"})(x); };
  EXPECT_EQ(in_entry([&](Tensor x) { return shard_map(twice, {P("dp", "")}, {P("dp", "")}, {"dp"})(x); }),
            "shard_map: it is inside of a region that is written for the ranks along dp already");
  EXPECT_EQ(in_entry([&](Tensor x) { return shard_map(same, {P(open({"dp"}), "")}, {P("dp", "")})(x); }).substr(0, 60),
            "shard_map: operand 0 is laid out as <{dp, ?}, {}>: a region'");
}

// A map of layouts: the function is one of whole arrays, and only its ends are laid out.
TEST(Sharding, FunctionsOfWholeArraysAreLaidOutAtTheirEnds) {
  auto layer = [](std::pair<Tensor, Tensor> xw, Tensor b) { return std::pair(matmul(xw.first, xw.second), b * 2); };
  auto traced = [&](Layouts in, Layouts out) {
    Program program;
    program.mesh("pod", {{"dp", 2}, {"tp", 3}});
    program.entry("f", {{"x", f32, {6, 6}}, {"w", f32, {6, 6}}, {"b", f32, {4}}}, [&](Tensor x, Tensor w, Tensor b) -> Outputs {
      auto [y, c] = shard_map(layer, in, out)(std::pair(x, w), b);
      return {{"y", y}, {"c", c}};
    });
    EXPECT_TRUE(ir::verify(program.module()).ok());
    return ir::print(program.module());
  };
  std::string text = traced({{0, P("dp", "")}}, {{0, P("", "tp")}, {1, P("dp")}});
  for (const char* part : {"shard(%x) {sharding=<dp, {}>}", "shard(%w) {sharding=<dp, {}>}", "{sharding=<{}, tp>}", "{sharding=<dp>}"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(text.find("shard(%b)"), std::string::npos) << text;
  EXPECT_EQ(traced({}, {}).find("shard("), std::string::npos);
  EXPECT_EQ(refusal([&] { traced({{2, P("dp")}}, {}); }), "shard_map: in_specs lays out argument 2, and there are 2");
  EXPECT_EQ(refusal([&] { traced({}, {{2, P("dp")}}); }), "shard_map: out_specs lays out result 2, and there are 2");
}

}  // namespace
}  // namespace nabla
