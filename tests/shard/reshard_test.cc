// From one layout to another: values arrive, and no way that is known is quicker.
#include <gtest/gtest.h>

#include "ir/cost/exchange.h"
#include "ir/ops/all_ops.h"
#include "ir/reference/ranks.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "passes/shard/reshard_path.h"
#include "tests/shard/sharded_run.h"

namespace nabla::shard_tests {
namespace {

using ir::Axes;
using passes::Layout;
using passes::ReshardStep;

const ir::Mesh kSquare{"square", {{"a", 2}, {"b", 2}}, nullptr};
const ir::Mesh kCube{"cube", {{"a", 2}, {"b", 2}, {"c", 2}}, nullptr};
const ir::Mesh kLine{"line", {{"a", 8}}, nullptr};

ir::Sharding sharding(const Layout& layout) {
  ir::Sharding out;
  for (const Axes& axes : layout.dims) out.dims.push_back({axes, false});
  return out;
}

std::string str(const Layout& layout) {
  std::string out;
  for (const Axes& axes : layout.dims) out += ir::str(axes) + " ";
  return out + "pending " + ir::str(layout.pending);
}

// All pieces of axes, as often as they can be cut in two.
std::vector<ir::AxisRef> pieces(const ir::Mesh& mesh, bool whole) {
  std::vector<ir::AxisRef> out;
  for (const ir::MeshAxis& a : mesh.axes) {
    if (whole || a.size % 2 != 0 || a.size == 2)
      out.push_back({a.name});
    else
      out.push_back({a.name, 1, 2}), out.push_back({a.name, 2, a.size / 2});
  }
  return out;
}

Layout drawn(const ir::Mesh& mesh, const ir::Type& type, bool sums, ir::Rng& rng) {
  Layout out{std::vector<Axes>(type.shape.size()), {}};
  std::vector<ir::AxisRef> axes = pieces(mesh, rng() % 3 != 0);
  std::shuffle(axes.begin(), axes.end(), rng);
  for (const ir::AxisRef& a : axes) {
    size_t at = rng() % (out.dims.size() + 2);
    if (at == out.dims.size() && sums) out.pending.push_back(a);
    if (at >= out.dims.size()) continue;
    out.dims[at].push_back(a);
    if (!passes::divides(mesh, out.dims[at], type.shape[at])) out.dims[at].pop_back();
  }
  for (Axes& dim : out.dims) dim = passes::joined(mesh, dim);
  return out;
}

// Everything is brought to all ranks, which take their parts.
std::vector<ReshardStep> gathered_and_cut(const Layout& from, const Layout& to) {
  std::vector<ReshardStep> out;
  if (!from.pending.empty()) out.push_back({ReshardStep::kAllReduce, from.pending});
  for (int d = 0; d < static_cast<int>(from.dims.size()); ++d)
    if (!from.dims[d].empty()) out.push_back({ReshardStep::kAllGather, from.dims[d], d});
  for (int d = 0; d < static_cast<int>(from.dims.size()); ++d)
    if (!to.dims[d].empty()) out.push_back({ReshardStep::kCut, to.dims[d], d});
  return out;
}

// Every rank's part after the steps, of values of which each place of the pending sum has a share.
void expect_parts(const ir::Mesh& mesh, const ir::Type& type, const Layout& from, const Layout& to) {
  std::vector<Literal> shares, of_rank;
  Literal whole(type.dtype, type.extents());
  for (int64_t k = 0; k < shards(mesh, from.pending); ++k) {
    Literal share(type.dtype, type.extents());
    for (int64_t i = 0; i < share.size(); ++i) share.set_i(i, i * 7 + k * 1000), whole.set_i(i, whole.get_i(i) + share.get_i(i));
    shares.push_back(share);
  }
  std::vector<std::vector<Literal>> args;
  for (int64_t r = 0; r < mesh.ranks(); ++r)
    args.push_back({cut(mesh, sharding(from), shares[coordinate(mesh, from.pending, r)])[r]});
  ir::Module m;
  m.stage = ir::Stage::kLocal;
  m.meshes = {mesh};
  passes::RankSymbols rank(mesh);
  m.symbols = rank.all();
  ir::FunctionBuilder b("f", ops::all_ops(), &m);
  ir::Val x = b.param("x", passes::local_type(mesh, type, from));
  m.set(std::make_shared<const ir::Function>(b.finish({passes::reshard(mesh, rank, {x, from}, to)})));
  auto verified = ir::verify(m);
  ASSERT_TRUE(verified.ok()) << to_string(verified.errors()) << print(m);
  auto got = ir::interpret_ranks(m, "f", args);
  ASSERT_TRUE(got.ok()) << to_string(got.errors()) << print(m);
  std::vector<Literal> expected = cut(mesh, sharding(to), whole);
  for (size_t r = 0; r < expected.size(); ++r) {
    ASSERT_EQ((*got)[r][0].shape(), expected[r].shape()) << print(m);
    for (int64_t i = 0; i < expected[r].size(); ++i)
      ASSERT_EQ((*got)[r][0].get_i(i), expected[r].get_i(i)) << "rank " << r << " of " << str(from) << " to " << str(to) << print(m);
  }
}

void expect_quick(const ir::Mesh& mesh, const ir::Type& type, const Layout& from, const Layout& to, bool bytes_count) {
  std::vector<ReshardStep> steps = passes::reshard_steps(mesh, type, from, to);
  for (const std::vector<ReshardStep>& other : {passes::plain_steps(mesh, from, to), gathered_and_cut(from, to)}) {
    // Cuts are not exchanges: those of `gathered_and_cut` may be fewer.
    double slack = 0.1 * static_cast<double>(steps.size());
    EXPECT_LE(passes::steps_us(mesh, type, from, steps), passes::steps_us(mesh, type, from, other) * (1 + 1e-9) + slack)
        << type.str() << " from " << str(from) << " to " << str(to);
    if (!bytes_count) continue;
    EXPECT_LE(passes::bytes_of_steps(mesh, type, from, steps), passes::bytes_of_steps(mesh, type, from, other) * (1 + 1e-9))
        << type.str() << " from " << str(from) << " to " << str(to);
  }
}

class Reshards : public testing::TestWithParam<ir::Mesh> {};

TEST_P(Reshards, BringWhatIsWanted) {
  const ir::Mesh& mesh = GetParam();
  const ir::Type small(DType::kI32, {24, 4, 8}), large(DType::kI32, {24 << 10, 4 << 10, 8 << 4});
  int moved = 0, less = 0;
  double sent = 0, plainly = 0;
  for (uint64_t seed = 0; seed < samples(300); ++seed) {
    ir::Rng rng(seed);
    Layout from = drawn(mesh, small, rng() % 2 == 0, rng), to = drawn(mesh, small, false, rng);
    expect_parts(mesh, small, from, to);
    if (HasFatalFailure()) return;
    expect_quick(mesh, small, from, to, false);
    expect_quick(mesh, large, from, to, true);
    double now = passes::reshard_bytes(mesh, large, from, to);
    double plain = passes::bytes_of_steps(mesh, large, from, passes::plain_steps(mesh, from, to));
    moved += plain > 0, less += now < plain * (1 - 1e-9);
    sent += now, plainly += plain;
  }
  RecordProperty("moved", moved), RecordProperty("with_fewer_bytes", less);
  RecordProperty("bytes_of_plain_percent", static_cast<int>(100 * sent / plainly));
}

INSTANTIATE_TEST_SUITE_P(Meshes, Reshards, testing::ValuesIn([] {
                           std::vector<ir::Mesh> out = meshes();
                           out.insert(out.end(), {kCube, kLine});
                           return out;
                         }()),
                         [](const auto& info) { return info.param.name; });

// ---- The best forms that are known.

std::string steps(const ir::Mesh& mesh, const Layout& from, const Layout& to) {
  std::string out;
  for (const ReshardStep& s : passes::reshard_steps(mesh, {DType::kF32, {4096, 4096}}, from, to)) {
    const std::optional<CollectiveKind> collective = collective_of(s.kind);
    const std::string op = collective ? collective_def(*collective).name : "section";
    out += (out.empty() ? "" : " ") + op + ir::str(s.axes);
  }
  return out;
}

TEST(Reshard, OneStepWhereOneDoes) {
  Axes a{{"a"}}, b{{"b"}}, ab{{"a"}, {"b"}}, ba{{"b"}, {"a"}};
  EXPECT_EQ(steps(kSquare, {{a, {}}, {}}, {{a, {}}, {}}), "");
  EXPECT_EQ(steps(kSquare, {{ab, {}}, {}}, {{ba, {}}, {}}), "permute{a, b}");
  EXPECT_EQ(steps(kSquare, {{a, b}, {}}, {{b, a}, {}}), "permute{a, b}");
  EXPECT_EQ(steps(kSquare, {{a, {}}, {}}, {{b, {}}, {}}), "permute{a, b}");
  EXPECT_EQ(steps(kSquare, {{a, {}}, {}}, {{{}, a}, {}}), "all_to_all{a}");
  EXPECT_EQ(steps(kSquare, {{ab, {}}, {}}, {{{}, ab}, {}}), "all_to_all{a, b}");
  EXPECT_EQ(steps(kSquare, {{{}, {}}, a}, {{a, {}}, {}}), "reduce_scatter{a}");
  EXPECT_EQ(steps(kSquare, {{{}, {}}, ab}, {{{}, {}}, {}}), "all_reduce{a, b}");
  EXPECT_EQ(steps(kSquare, {{ab, {}}, {}}, {{{}, {}}, {}}), "all_gather{a, b}");
}

TEST(Reshard, WhatIsFreeComesFirst) {
  Axes a{{"a"}}, b{{"b"}}, ab{{"a"}, {"b"}}, ba{{"b"}, {"a"}};
  // Less is summed, and less moves.
  EXPECT_EQ(steps(kSquare, {{{}, {}}, a}, {{b, {}}, {}}), "section{b} all_reduce{a}");
  EXPECT_EQ(steps(kSquare, {{{}, {}}, a}, {{ba, {}}, {}}), "section{b} reduce_scatter{a}");
  EXPECT_EQ(steps(kSquare, {{a, {}}, {}}, {{ba, {}}, {}}), "section{b} permute{a, b}");
  // A major axis is dropped: pieces change places before they are joined.
  EXPECT_EQ(steps(kSquare, {{ab, {}}, {}}, {{b, {}}, {}}), "permute{a, b} all_gather{a}");
  // Both sums at once, where one of them is to be cut.
  EXPECT_EQ(steps(kSquare, {{{}, {}}, ab}, {{a, {}}, {}}), "reduce_scatter{a} all_reduce{b}");
}

TEST(Reshard, PartsOfAxesMove) {
  Axes a{{"a"}}, major{{"a", 1, 2}}, minor{{"a", 2, 4}};
  EXPECT_EQ(steps(kLine, {{a, {}}, {}}, {{major, minor}, {}}), "all_to_all{a:(2)4}");
  EXPECT_EQ(steps(kLine, {{a, {}}, {}}, {{{{"a", 2, 4}, {"a", 1, 2}}, {}}, {}}), "permute{a}");
}

// Machines have eight ranks: what crosses them counts more, whatever the number of steps.
TEST(Reshard, SlowAxesCountMore) {
  const ir::Mesh wide{"wide", {{"out", 8}, {"in", 8}}, nullptr};
  ir::Link in = ir::link_along(wide, {{"in"}}), out = ir::link_along(wide, {{"out"}});
  EXPECT_GT(in.bytes_per_us, out.bytes_per_us);
  EXPECT_EQ(ir::link_along(wide, {{"in"}, {"out"}}).bytes_per_us, out.bytes_per_us);
  // Each dimension is joined by itself: over the slow axis first, while parts are small.
  EXPECT_EQ(steps(wide, {{{{"in"}}, {{"out"}}}, {}}, {{{}, {}}, {}}), "all_gather{out} all_gather{in}");
}

}  // namespace
}  // namespace nabla::shard_tests
