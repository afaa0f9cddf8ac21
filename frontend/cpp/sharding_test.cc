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
  const std::string part = "argument 0 of shard_map is the part f32[4,6] of f32[8,6], laid out as <dp, {}>";
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

// A dimension where axes stand, such as psum_scatter(x, 0), does not compile.
static_assert(!std::is_convertible_v<std::nullptr_t, AxisNames>);

// Errors of collectives by the names that Python has for them.
TEST(Sharding, WhatCollectivesCannotDoIsRefusedAtTheLineOfTheUser) {
  auto in_region = [](auto f, bool region = true, int line = __builtin_LINE()) {
    Program program;
    program.mesh("pod", {{"dp", 2}, {"tp", 2}});
    try {
      program.entry("f", {{"x", f32, {8, 6}}}, [&](Tensor x) -> Outputs {
        return {{"y", region ? shard_map(f, {P("", "")}, {P("", "")})(x) : f(x)}};
      });
    } catch (const Error& e) {
      const Diagnostic& d = e.diagnostics()[0];
      EXPECT_TRUE(d.location && d.location->file.ends_with("sharding_test.cc") && d.location->line == line) << e.what();
      return fmt::format("E{:04} {}{}{}", static_cast<int>(d.code), d.message, d.help.empty() ? "" : "; ", d.help);
    }
    return std::string("ok");
  };
  auto outside = [&](auto f, int line = __builtin_LINE()) { return in_region(f, false, line); };
  EXPECT_EQ(in_region([](Tensor x) { return all_reduce(x, "average"); }),
            "E0204 all_reduce: reduce_op is one of {sum, max, min, mean, prod}, got \"average\"; reduce over gathered values "
            "(all_gather) for any other combination");
  EXPECT_EQ(in_region([](Tensor x) { return all_reduce(x, "dp"); }),
            "E0204 all_reduce: reduce_op is one of {sum, max, min, mean, prod}, got \"dp\"; dp is an axis of the mesh: axes come last");
  EXPECT_EQ(in_region([](Tensor x) { return reduce_scatter(x, 0, "max"); }),
            "E0204 reduce_scatter: reduce_op is one of {sum}, got \"max\"; all_reduce has other combinations, of which ranks can take "
            "their parts");
  EXPECT_EQ(in_region([](Tensor x) { return all_reduce(x, "prod", "ep"); }).substr(0, 43),
            "E0210 all_reduce: mesh pod has no axis `ep`");
  EXPECT_EQ(in_region([](Tensor x) { return reduce_scatter(x, 0, "sum", "ep"); }).substr(0, 47),
            "E0210 reduce_scatter: mesh pod has no axis `ep`");
  EXPECT_EQ(in_region([](Tensor x) { return reduce_scatter(x, 1); }).substr(0, 5), "E0203");
  EXPECT_NE(in_region([](Tensor x) { return reduce_scatter(x, 1); }).find("4 shards of 6 elements in dimension 1"), std::string::npos);
  EXPECT_EQ(in_region([](Tensor x) { return reduce_scatter(x, 2); }).substr(0, 5), "E0204");
  for (int64_t root : {-1, 4})
    EXPECT_EQ(in_region([=](Tensor x) { return broadcast(x, root); }),
              fmt::format("E0204 distributed_broadcast: root is a rank, 0 to 3, got {}", root));
  EXPECT_EQ(in_region([](Tensor x) { return ppermute(x, {{0, 4}}); }),
            "E0204 ppermute of f32[8,6] along {dp, tp}: 4 is no place, where there are 0 to 3, in {(0, 4)}; a pair is (place that sends, "
            "place that gets)");
  EXPECT_EQ(in_region([](Tensor x) { return ppermute(x, {{0, 1}, {0, 2}}); }),
            "E0204 ppermute of f32[8,6] along {dp, tp}: place 0 sends twice, in {(0, 1), (0, 2)}; each sends and gets at most once: what "
            "goes to several is distributed_broadcast");
  const std::string alone = ": the function is not written for the ranks of a mesh; use it in the function of a shard_map; elsewhere what "
                            "ranks exchange follows from layouts";
  EXPECT_EQ(outside([](Tensor x) { return all_reduce(x); }), "E0210 all_reduce" + alone);
  EXPECT_EQ(outside([](Tensor x) { return all_reduce(x, "prod"); }), "E0210 all_reduce" + alone);
  EXPECT_EQ(outside([](Tensor x) { return psum(x); }), "E0210 psum" + alone);
  EXPECT_EQ(outside([](Tensor x) { return reduce_scatter(x); }), "E0210 reduce_scatter" + alone);
  EXPECT_EQ(outside([](Tensor x) { return broadcast(x); }), "E0210 distributed_broadcast" + alone);
  EXPECT_EQ(outside([](Tensor x) { return reshard(x, P("dp")); }).substr(0, 5), "E0203");
}

TEST(Sharding, ErrorsOfLayoutsNameTheArrayAndTheLayout) {
  auto said = [](auto f) {
    return refusal([&] {
      Program program;
      program.mesh("pod", {{"dp", 2}, {"tp", 2}});
      program.entry("f", {{"x", f32, {8, 6}}}, [&](Tensor x) -> Outputs { return {{"y", f(x)}}; });
    });
  };
  auto same = [](Tensor x) { return x; };
  const std::string unknown = "shard of f32[8,6] as <ep, {}>: mesh pod has no axis `ep`; did you mean `dp`?";
  EXPECT_EQ(said([](Tensor x) { return shard(x, P("ep", "")); }), unknown);
  EXPECT_EQ(said([&](Tensor x) { return shard_map(same, Layouts{{0, P("ep", "")}}, {})(x); }), unknown);
  EXPECT_EQ(said([](Tensor x) { return shard(x, P("dp", "dp")); }), "shard of f32[8,6] as <dp, dp>: axis dp stands twice");
  EXPECT_EQ(said([](Tensor x) { return shard(x, P("", PDim{"dp", "tp"})); }),
            "shard of f32[8,6] as <{}, {dp, tp}>: dimension 1 of f32[8,6] has 6 elements, which 4 shards along {dp, tp} do not divide");
  EXPECT_EQ(said([](Tensor x) { return propagation_barrier(x, "sideways"); }),
            "propagation_barrier: direction is \"sideways\", expected one of {none, forward, backward, both, strong} (C1)");
}

// ---- Arithmetic of meshes and layouts, as in Python.

Mesh mesh_of(std::vector<MeshAxis> axes) {
  Program program;
  return program.mesh("pod", std::move(axes));
}

TEST(Sharding, RanksAreNumberedRowMajor) {
  Mesh mesh = mesh_of({{"dp", 2}, {"tp", 4}});
  EXPECT_EQ(num_devices(mesh), 8);
  EXPECT_EQ(get_axis_size(mesh, "tp"), 4);
  for (int64_t r = 0; r < 8; ++r) {
    EXPECT_EQ(get_coordinate(mesh, r, "dp"), r / 4);
    EXPECT_EQ(get_coordinate(mesh, r, "tp"), r % 4);
  }
  EXPECT_EQ(get_devices_on_axis_slice(mesh, "tp", 1), (Ints{1, 5}));
  EXPECT_EQ(get_axis_indices(mesh, 6), (std::map<std::string, int64_t>{{"dp", 1}, {"tp", 2}}));
  EXPECT_EQ(refusal([&] { get_axis_size(mesh, "pp"); }), "get_axis_size: mesh pod has no axis `pp`; did you mean `dp`?");
  EXPECT_EQ(refusal([&] { get_coordinate(mesh, 0, "pp"); }), "get_coordinate: mesh pod has no axis `pp`; did you mean `dp`?");
  for (int64_t r : {-1, 8}) {
    EXPECT_EQ(refusal([&] { get_coordinate(mesh, r, "dp"); }), fmt::format("get_coordinate: mesh pod has ranks 0 to 7, got {}", r));
    EXPECT_EQ(refusal([&] { get_axis_indices(mesh, r); }), fmt::format("get_axis_indices: mesh pod has ranks 0 to 7, got {}", r));
  }
  EXPECT_EQ(refusal([&] { get_devices_on_axis_slice(mesh, "tp", 4); }),
            "get_devices_on_axis_slice: mesh pod has places 0 to 3 along tp, got 4");
}

// Microbatches are no ranks, wherever their axis stands.
TEST(Sharding, ATemporalAxisHasNoRanks) {
  Mesh mesh = mesh_of({{"dp", 2}, temporal("mb", 4), {"tp", 2}});
  EXPECT_EQ(num_devices(mesh), 4);
  EXPECT_EQ(get_axis_size(mesh, "mb"), 4);
  EXPECT_EQ(get_axis_indices(mesh, 3), (std::map<std::string, int64_t>{{"dp", 1}, {"tp", 1}}));
  EXPECT_EQ(get_devices_on_axis_slice(mesh, "dp", 1), (Ints{2, 3}));
  EXPECT_EQ(compute_local_shape({8, 3}, P("dp", ""), mesh, 3), (Shape{4, 3}));
  EXPECT_EQ(refusal([&] { get_coordinate(mesh, 0, "mb"); }),
            "get_coordinate: mb is a temporal axis of mesh pod: each rank has all parts along it");
  EXPECT_EQ(refusal([&] { compute_local_shape({8}, P("mb"), mesh, 0); }),
            "compute_local_shape: mb is a temporal axis of mesh pod: each rank has all parts along it");
}

TEST(Sharding, LocalShapesOfUnevenParts) {
  Mesh mesh = mesh_of({{"dp", 2}, {"tp", 4}});
  P layout("tp", "dp");
  const std::vector<Shape> first = {{3, 2}, {3, 2}, {3, 2}, {1, 2}};
  for (int64_t r = 0; r < 4; ++r) EXPECT_EQ(compute_local_shape({10, 3}, layout, mesh, r), first[r]) << r;
  EXPECT_EQ(compute_local_shape({10, 3}, layout, mesh, 4), (Shape{3, 1}));
  EXPECT_EQ(compute_local_shape({2, 1}, layout, mesh, 3), (Shape{0, 1}));
  // Several axes, major first, a part of one, and none.
  EXPECT_EQ(compute_local_shape({9, 5}, P(PDim{"tp", "dp"}, ""), mesh, 4), (Shape{2, 5}));
  EXPECT_EQ(compute_local_shape({9}, P(PDim{"tp", "dp"}), mesh, 6), (Shape{0}));
  EXPECT_EQ(compute_local_shape({6}, P(ir::DimSharding{{{"tp", 2, 2}}}), mesh, 1), (Shape{3}));
  EXPECT_EQ(compute_local_shape({}, P(), mesh, 1), Shape{});
  Program program;
  ir::Dim batch = program.symbol("batch", 8, 64, 8);
  EXPECT_EQ(compute_local_shape({batch, 3}, layout, mesh, 0), (Shape{ir::Dim::floordiv(batch, 4), 2}));

  auto local = [&](Shape shape, P p, int64_t rank) { return refusal([&] { compute_local_shape(shape, p, mesh, rank); }); };
  EXPECT_EQ(local({8, 3, 2}, layout, 0), "compute_local_shape: <tp, dp> is the layout of 2 dimensions, the shape has 3");
  EXPECT_EQ(local({-8, 3}, layout, 0), "compute_local_shape: dimension 0 has -8 elements, expected 0 or more");
  EXPECT_EQ(local({8, 3}, layout, 8), "compute_local_shape: mesh pod has ranks 0 to 7, got 8");
  EXPECT_EQ(local({8}, P("pp"), 0), "compute_local_shape: mesh pod has no axis `pp`; did you mean `dp`?");
  EXPECT_EQ(local({8, 3}, P("dp", "dp"), 0), "compute_local_shape: axis dp stands twice");
}

TEST(Sharding, LayoutsAreCountedAndCompared) {
  Mesh mesh = mesh_of({{"dp", 2}, {"tp", 4}});
  P both("dp", "tp", ""), whole("", ""), kept = P("dp", "").replicated_axes({"tp"});
  EXPECT_EQ(get_num_shards(both, mesh), 8);
  EXPECT_EQ(both.total_shards(mesh), 8);
  EXPECT_EQ(get_num_shards(whole, mesh), 1);
  EXPECT_EQ(get_num_shards(kept, mesh), 2);
  EXPECT_TRUE(whole.is_fully_replicated() && P(open(), "").is_fully_replicated());
  EXPECT_FALSE(both.is_fully_replicated());
  EXPECT_EQ(P("dp").get_implicitly_replicated_axes(mesh), std::vector<std::string>{"tp"});
  EXPECT_TRUE(both.get_implicitly_replicated_axes(mesh).empty() && kept.get_implicitly_replicated_axes(mesh).empty());
  EXPECT_EQ(refusal([&] { get_num_shards(P("pp"), mesh); }), "<pp>: mesh pod has no axis `pp`; did you mean `dp`?");
  EXPECT_FALSE(needs_reshard(P("dp", ""), P(open({"dp"}).priority(1), "")));
  EXPECT_FALSE(needs_reshard(P("dp", ""), kept));
  EXPECT_TRUE(needs_reshard(P("dp", ""), P("", "dp")));
  EXPECT_TRUE(needs_reshard(P("dp"), P("dp", "")));
  EXPECT_TRUE(needs_reshard(P(PDim{"dp", "tp"}), P(PDim{"tp", "dp"})));
}

TEST(Sharding, AnArrayIsTheSameAlongReplicatedAxes) {
  Program program;
  program.mesh("pod", {{"dp", 2}, {"tp", 4}});
  program.entry("f", {{"x", f32, {8, 4}}}, [](Tensor x) -> Outputs {
    return {{"y", reshard(x, P("dp", open()).replicated_axes({"tp"}))}};
  });
  EXPECT_TRUE(ir::verify(program.module()).ok());
  std::string text = ir::print(program.module());
  EXPECT_NE(text.find("shard(%x) {sharding=<dp, {?}> replicated {tp}}"), std::string::npos) << text;
}

}  // namespace
}  // namespace nabla
