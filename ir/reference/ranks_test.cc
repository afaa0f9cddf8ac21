// Collectives on several ranks: every group of a mesh of two axes, and what happens where ranks do not meet.
#include "ir/reference/ranks.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::ir {
namespace {

Module module(const std::string& params, const std::string& body) {
  Result<Module> m = parse_module(
      "nabla 1 local\nmesh pod = {dp=2, tp=3}\nfunc @f(" + params + ") {\n" + body + "\n}\n", "test.nbl", ops::all_ops());
  EXPECT_TRUE(m.ok()) << (m.ok() ? "" : to_string(m.errors()));
  return m.ok() ? *std::move(m) : Module{};
}

Literal vector(std::vector<double> values) {
  Literal out(DType::kF32, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) out.set(static_cast<int64_t>(i), values[i]);
  return out;
}
std::vector<double> numbers(const Literal& v) {
  std::vector<double> out;
  for (int64_t i = 0; i < v.size(); ++i) out.push_back(is_float(v.dtype()) ? v.get(i) : static_cast<double>(v.get_i(i)));
  return out;
}

// Rank r has {6r, 6r + 1, ... 6r + 5}.
std::vector<std::vector<Literal>> counted() {
  std::vector<std::vector<Literal>> out;
  for (int r = 0; r < 6; ++r) {
    std::vector<double> values(6);
    std::iota(values.begin(), values.end(), 6 * r);
    out.push_back({vector(values)});
  }
  return out;
}

using Rows = std::vector<std::vector<double>>;

Rows run(const std::string& body) {
  auto results = interpret_ranks(module("%x: f32[6]", body + "\n return %y"), "f", counted());
  EXPECT_TRUE(results.ok()) << to_string(results.errors());
  Rows out;
  for (const auto& r : *results) out.push_back(numbers(r[0]));
  return out;
}

TEST(Ranks, AllReduceJoinsThoseThatDifferAlongTheAxes) {
  // Ranks 0 1 2 | 3 4 5 are the rows along tp.
  Rows sums = run("%y = all_reduce(%x) {axes={tp}, shards=3}");
  for (int r = 0; r < 6; ++r)
    for (int i = 0; i < 6; ++i) EXPECT_EQ(sums[r][i], r < 3 ? 18 + 3 * i : 72 + 3 * i) << r;
  Rows largest = run("%y = all_reduce(%x) {axes={dp}, shards=2, combiner=\"max\"}");
  for (int r = 0; r < 6; ++r) EXPECT_EQ(largest[r][0], 6 * (r % 3) + 18);
  Rows all = run("%y = all_reduce(%x) {axes={dp, tp}, shards=6, combiner=\"mean\"}");
  for (int r = 0; r < 6; ++r) EXPECT_EQ(all[r][5], 20);
}

TEST(Ranks, GatherAndScatterAreInOrderOfTheCoordinates) {
  Rows whole = run("%y = all_gather(%x) {axes={dp}, shards=2, dim=0}");
  EXPECT_EQ(whole[4], (std::vector<double>{6, 7, 8, 9, 10, 11, 24, 25, 26, 27, 28, 29}));
  // With two axes the last one is the fastest, in the order in which they are named.
  Rows swapped = run("%s = slice(%x) {starts=[0], limits=[1], strides=[1]}\n %y = all_gather(%s) {axes={tp, dp}, shards=6, dim=0}");
  EXPECT_EQ(swapped[1], (std::vector<double>{0, 18, 6, 24, 12, 30}));
  Rows parts = run("%y = reduce_scatter(%x) {axes={tp}, shards=3, dim=0}");
  EXPECT_EQ(parts[4], (std::vector<double>{72 + 6, 72 + 9}));
}

TEST(Ranks, AllToAllTransposesParts) {
  Rows out = run("%y = all_to_all(%x) {axes={tp}, shards=3, split=0, join=0}");
  EXPECT_EQ(out[1], (std::vector<double>{2, 3, 8, 9, 14, 15}));
}

TEST(Ranks, PermuteFillsWithZeros) {
  Rows out = run("%y = permute(%x) {axes={tp}, shards=3, pairs=[0, 1, 1, 2]}");
  EXPECT_EQ(out[3], std::vector<double>(6, 0));
  EXPECT_EQ(out[4][0], 18);
  EXPECT_EQ(out[5][0], 24);
}

TEST(Ranks, PartsOfAxesHaveCoordinatesOfTheirOwn) {
  Result<Module> m = parse_module("nabla 1 local\nmesh pod = {x=8}\nfunc @f() {\n"
                                  " %a = axis_index() {axes={x:(1)2}, shards=2}\n %b = axis_index() {axes={x:(2)4}, shards=4}\n"
                                  " %c = axis_index() {axes={x:(4)2, x:(1)2}, shards=4}\n return %a, %b, %c\n}\n",
                                  "test.nbl", ops::all_ops());
  ASSERT_TRUE(m.ok()) << to_string(m.errors());
  auto out = interpret_ranks(*m, "f", std::vector<std::vector<Literal>>(8));
  ASSERT_TRUE(out.ok()) << to_string(out.errors());
  for (int r = 0; r < 8; ++r) {
    EXPECT_EQ((*out)[r][0].get_i(0), r / 4);
    EXPECT_EQ((*out)[r][1].get_i(0), r % 4);
    EXPECT_EQ((*out)[r][2].get_i(0), r % 2 * 2 + r / 4);
  }
}

TEST(Ranks, MeetInsideLoops) {
  Result<Module> m = parse_module(R"(nabla 1 local
mesh pod = {x=4}
func @body(%c: f32[]) {
  %s = all_reduce(%c) {axes={x}, shards=4}
  return %s
}
func @f(%c: f32[]) {
  %y = scan(%c) {body=@body, carries=1, length=[3]}
  return %y
}
)",
                                  "test.nbl", ops::all_ops());
  ASSERT_TRUE(m.ok()) << to_string(m.errors());
  std::vector<std::vector<Literal>> args;
  for (int r = 0; r < 4; ++r) args.push_back({Literal::scalar(DType::kF32, r)});
  auto out = interpret_ranks(*m, "f", args);
  ASSERT_TRUE(out.ok()) << to_string(out.errors());
  for (int r = 0; r < 4; ++r) EXPECT_EQ((*out)[r][0].get(0), 6 * 16);
}

TEST(Ranks, CutAndJoinAreInverse) {
  Mesh mesh{"pod", {{"dp", 2}, {"tp", 3}}, nullptr};
  Literal whole(DType::kF32, {6, 4});
  for (int i = 0; i < 24; ++i) whole.set(i, i);
  for (const Sharding& s : {Sharding{{{{{"tp"}}}, {{{"dp"}}}}, {}}, Sharding{{{{{"tp"}, {"dp"}}}, {}}, {}},
                            Sharding{{{}, {}}, {{"dp"}}}}) {
    std::vector<Literal> parts = cut(mesh, s, whole);
    EXPECT_EQ(join(mesh, s, whole.shape(), parts).value(), whole) << s.str();
  }
  std::vector<Literal> parts = cut(mesh, {{{{{"tp"}, {"dp"}}}, {}}, {}}, whole);
  EXPECT_EQ(numbers(parts[1]), (std::vector<double>{8, 9, 10, 11}));  // dp 0, tp 1: row 2
  // Uneven shards: ceil(4 / 3) = 2 columns, of which the last rank has none.
  Sharding uneven{{{{{"dp"}}}, {{{"tp"}}}}, {}, true};
  parts = cut(mesh, uneven, whole);
  EXPECT_EQ(parts[2].shape(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(numbers(parts[1]), (std::vector<double>{2, 3, 6, 7, 10, 11}));
  EXPECT_EQ(numbers(parts[2]), (std::vector<double>{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(join(mesh, uneven, whole.shape(), parts).value(), whole);
  parts = cut(mesh, {{{}, {}}, {}}, whole);
  parts[4].set(0, 7);
  EXPECT_EQ(join(mesh, {{{}, {}}, {}}, whole.shape(), parts).errors()[0].message,
            "ranks 0 and 4 have different values of one part of <{}, {}>");
}

std::string refusal(const std::string& function, const std::string& body) {
  Result<Module> more = parse_module("nabla 1 local\nmesh pod = {dp=2, tp=3}\n" + function + "func @f(%x: f32[]) {\n" + body + "\n}\n",
                                     "test.nbl", ops::all_ops());
  EXPECT_TRUE(more.ok()) << (more.ok() ? "" : to_string(more.errors()));
  std::vector<std::vector<Literal>> args;
  for (int r = 0; r < 6; ++r) args.push_back({Literal::scalar(DType::kF32, r)});
  auto out = interpret_ranks(*more, "f", args);
  return out.ok() ? "ok" : out.errors()[0].message;
}

TEST(Ranks, RanksThatDoNotMeetAreAnError) {
  // One rank of each group leaves its peers waiting.
  const std::string sum = "func @sum(%x: f32[]) {\n %y = all_reduce(%x) {axes={tp}, shards=3}\n return %y\n}\n";
  const std::string none = "func @none(%x: f32[]) {\n return %x\n}\n";
  const std::string pick =
      " %i = axis_index() {axes={tp}, shards=3}\n %one = constant() {value=i32[] {1}}\n %p = lt(%i, %one)\n";
  EXPECT_EQ(refusal(sum + none, pick + " %y = cond(%p, %x) {then=@none, else=@sum}\n return %y"),
            "rank 1 waits in all_reduce of f32[] along {tp}, and rank 0 has ended");
  const std::string largest =
      "func @largest(%x: f32[]) {\n %y = permute(%x) {axes={tp}, shards=3, pairs=[]}\n return %y\n}\n";
  EXPECT_EQ(refusal(sum + largest, pick + " %y = cond(%p, %x) {then=@largest, else=@sum}\n return %y"),
            "rank 0 comes to permute of f32[] along {tp}, rank 1 of its group to all_reduce of f32[] along {tp}");
}

}  // namespace
}  // namespace nabla::ir
