// Layouts whose axes do not divide: values are those of one rank, and padding is never seen.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "passes/shard/pad_shards.h"
#include "tests/shard/collectives_of.h"
#include "tests/property/cases.h"
#include "tests/property/compare.h"
#include "tests/property/driver.h"
#include "tests/shard/sharded_run.h"
#include "tests/transforms/random_function.h"
#include "tests/transforms/random_program.h"

namespace nabla::shard_tests {
namespace {

const ir::Mesh kMeshes[] = {{"pair", {{"a", 2}}, nullptr},
                            {"three", {{"a", 3}}, nullptr},
                            {"four", {{"a", 4}}, nullptr},
                            {"six", {{"a", 2}, {"b", 3}}, nullptr},
                            {"eight", {{"a", 2}, {"b", 4}}, nullptr}};

ir::Module parsed(const std::string& text) {
  Result<ir::Module> m = ir::parse_module("nabla 1 flat\nmesh pod = {tp=4}\n" + text, "test.nbl", ops::all_ops());
  EXPECT_TRUE(m.ok()) << to_string(m.errors());
  return *m;
}

Literal counting(std::vector<int64_t> shape, double first = 1) {
  Literal out(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, first + static_cast<double>(i));
  return out;
}

// The position of an element along a dimension.
int64_t position(const std::vector<int64_t>& shape, int64_t element, int dim) {
  for (size_t d = shape.size(); d-- > static_cast<size_t>(dim) + 1;) element /= shape[d];
  return element % shape[static_cast<size_t>(dim)];
}

// Poisons the padding, and compares the whole padded function with the one that it was made of. Then looks into all
// padding of @function that is claimed to be zero.
void expect_padding_as_claimed(const ir::Module& flat, const std::string& function, const std::vector<Literal>& args,
                               const std::vector<Literal>& expected, const std::string& what,
                               std::optional<property::Tolerance> tolerance = std::nullopt) {
  ir::Target target;
  passes::PassContext context{ops::all_ops(), target};
  passes::PaddingProbe probe;
  Result<ir::Module> padded = passes::pad_shards_probed(flat, context, &probe);
  ASSERT_TRUE(padded.ok()) << what << to_string(padded.errors());
  auto difference = property::difference(expected, transforms::run(*padded, function, args), tolerance);
  ASSERT_FALSE(difference) << what << ", poisoned: " << *difference << "\n" << print(*padded);
  ir::Function f = *padded->find(function);
  f.results.clear();
  std::vector<passes::PaddingProbe::Zeros> claims;
  for (const auto& claim : probe.zeros)
    if (claim.function == function) claims.push_back(claim), f.results.push_back(claim.value);
  ir::Module observed = *padded;
  observed.set(std::make_shared<const ir::Function>(f));
  std::vector<Literal> values = transforms::run(observed, function, args);
  for (size_t i = 0; i < claims.size(); ++i)
    for (int64_t k = 0; k < values[i].size(); ++k)
      if (position(values[i].shape(), k, claims[i].dim) >= claims[i].valid.value()) {
        ASSERT_EQ(is_float(values[i].dtype()) ? values[i].get(k) : static_cast<double>(values[i].get_i(k)), 0)
            << what << ": padding of dimension " << claims[i].dim << " of " << ir::value_name(f, claims[i].value) << "\n"
            << print(*padded);
      }
}

// Runs @f, and compares with one rank.
ShardedRun same(const std::string& text, const std::vector<Literal>& args) {
  ir::Module m = parsed(text);
  ir::Module alone = m;
  std::vector<Literal> expected = transforms::run(alone, "f", args);
  Result<ShardedRun> got = run_sharded(m, "f", args);
  EXPECT_TRUE(got.ok()) << to_string(got.errors());
  if (!got.ok()) return {};
  auto difference = property::difference(expected, got->results);
  EXPECT_FALSE(difference) << *difference << print(got->sharded) << print(got->local);
  expect_padding_as_claimed(m, "f", args, expected, "@f");
  return std::move(*got);
}

std::string local_text(const ShardedRun& run) { return print(run.local); }
bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Padding, RanksHaveTheCeilingAndSumsMask) {
  ShardedRun run = same(
      "func @f(%x: f32[10@tp] allow_padding) -> (f32[], f32[], f32[], i32[]) {\n"
      "  %e = exp(%x)\n  %s = reduce_sum(%e) {axes=[0]}\n  %n = neg(%e)\n  %m = reduce_max(%n) {axes=[0]}\n"
      "  %p = reduce_prod(%x) {axes=[0]}\n  %a = argmax(%n) {axis=0}\n  return %s, %m, %p, %a\n}\n",
      {counting({10})});
  EXPECT_TRUE(says(local_text(run), "%x: f32[3]")) << local_text(run);
  EXPECT_FALSE(says(local_text(run), "all_gather"));
}

TEST(Padding, FewerElementsThanRanks) {
  same("func @f(%x: f32[3@tp,2] allow_padding) -> (f32[3,2], f32[2]) {\n  %y = exp(%x) : f32[3@tp,2] allow_padding\n"
       "  %s = reduce_sum(%y) {axes=[0]}\n  return %y, %s\n}\n",
       {counting({3, 2})});
}

TEST(Padding, ProductsAlongEveryFactor) {
  for (std::string params : {"%x: f32[5@tp,6] allow_padding, %w: f32[6,7]", "%x: f32[5,6@tp] allow_padding, %w: f32[6,7]",
                             "%x: f32[5,6], %w: f32[6,7@tp] allow_padding"}) {
    ShardedRun run = same("func @f(" + params + ") -> (f32[5,7]) {\n  %e = exp(%x)\n  %y = dot_general(%e, %w) "
                          "{lhs_contract=[1], rhs_contract=[0]}\n  return %y\n}\n",
                          {counting({5, 6}, -15), counting({6, 7}, -20)});
    // What is split is the product, not only its operands.
    EXPECT_FALSE(says(local_text(run), "dot_general(%e, %w) : f32[5,7]")) << local_text(run);
  }
}

TEST(Padding, WhatLeavesAnEntryIsZeroThere) {
  ir::Module m = parsed("func @f(%x: f32[5@tp] allow_padding) -> (f32[5]) {\n  %y = exp(%x) : f32[5@tp] allow_padding\n  return %y\n}\n");
  Result<ShardedRun> run = run_sharded(m, "f", {counting({5})});
  ASSERT_TRUE(run.ok()) << to_string(run.errors());
  EXPECT_TRUE(says(local_text(*run), "select")) << local_text(*run);
}

TEST(Padding, ASoftmaxAndItsGradientOverAnUnevenVocabulary) {
  ShardedRun run = same(
      "func @f(%x: f32[3,10@tp] allow_padding, %ct: f32[3,10]) -> (f32[3,10], f32[3]) {\n  %s = softmax(%x) {axis=1}\n"
      "  %l = logsumexp(%x) {axis=1}\n  %y = mul(%s, %ct)\n  return %y, %l\n}\n",
      {counting({3, 10}, -12), counting({3, 10})});
  EXPECT_TRUE(says(local_text(run), "f32[3,3]")) << local_text(run);
}

TEST(Padding, LookupsStayWithinTheRows) {
  // Ids out of range are moved to the last row, not to the padding.
  Literal ids(DType::kI32, {4});
  for (int i = 0; i < 4; ++i) ids.set_i(i, std::vector<int64_t>{-3, 0, 5, 99}[static_cast<size_t>(i)]);
  ShardedRun run = same("func @f(%t: f32[6@tp,2] allow_padding, %ids: i32[4]) -> (f32[4,2]) {\n"
                        "  %y = embedding(%t, %ids)\n  return %y\n}\n",
                        {counting({6, 2}), ids});
  EXPECT_FALSE(says(local_text(run), "all_gather")) << local_text(run);
}

// One array of 140 elements is read as 4 x 35 and as 5 x 28: it is padded for one of the two at most.
TEST(Padding, ReadersOfOneArrayWantOtherLengths) {
  const char* reads[] = {"  %b = reshape(%i) {shape=[4, 5, 7]}\n  %a = reshape(%i) {shape=[5, 4, 7]}\n",
                         "  %a = reshape(%i) {shape=[5, 4, 7]}\n  %b = reshape(%i) {shape=[4, 5, 7]}\n"};
  for (std::string read : reads)
    for (std::string made : {"  %k = iota() {axis=0, shape=[140]}\n  %i = convert(%k) {dtype=f32}\n", "  %i = neg(%v)\n"})
      same("func @f(%x: f32[5@tp,4,7] allow_padding, %v: f32[140]) -> (f32[5,4,7]) {\n" + made + read +
               "  %t = transpose(%b) {permutation=[1, 0, 2]}\n  %s = add(%a, %t)\n  %m = mul(%s, %x)\n"
               "  %y = shard(%m) {sharding=<tp, {?}, {?}> allow_padding}\n  return %y\n}\n",
           {counting({5, 4, 7}), counting({140})});
}

TEST(Padding, AnOpWithoutAMaskTakesTheElementsAlone) {
  ShardedRun run = same("func @f(%x: f32[5@tp] allow_padding) -> (i32[5]) {\n  %y = exp(%x)\n  %s = argsort(%y) {axis=0}\n  return %s\n}\n",
                        {counting({5})});
  ASSERT_FALSE(run.remarks.empty());
  EXPECT_EQ(run.remarks[0].text, "argsort takes %y without its padding, as f32[5]: no rule masks it there");
}

TEST(Padding, WhatLeavesWholeIsGatheredWithoutRemarks) {
  ShardedRun run = same("func @f(%x: f32[5@tp] allow_padding) -> (f32[5]) {\n  %y = exp(%x)\n  return %y\n}\n", {counting({5})});
  EXPECT_TRUE(run.remarks.empty()) << run.remarks[0].text;
  EXPECT_TRUE(says(local_text(run), "all_gather")) << local_text(run);
}

// An optimizer's update of leaves that are whole, with a gradient in uneven parts: one gradient is gathered, and not the parameter
// and both slots.
TEST(Padding, AnUpdateOfWholeLeavesGathersTheGradientOnce) {
  auto exchanged = [](const ShardedRun& run) {
    std::vector<std::string> out;
    for_each_collective(run.local, "f", [&](const ir::Function& f, const ir::Node& n, int64_t) {
      out.push_back(n.op->name + " " + f.type(n.results[0]).str());
    });
    return out;
  };
  const std::vector<Literal> args = {counting({5}), counting({5}, -2), counting({5}, 2), counting({5}, 3)};
  auto update = [&](const std::string& results, const std::string& more) {
    return same("func @f(%w: f32[5], %g: f32[5@tp] allow_padding, %m: f32[5], %v: f32[5]) -> (" + results + ") {\n"
                "  %t = constant() {value=i32[] {3}}\n  %r = constant() {value=f32[] {0.1}}\n  %h = tanh(%g)\n"
                "  %a, %b, %c = adamw_update(%w, %h, %m, %v, %t, %r) {weight_decay=0.01}\n" + more + "}\n",
                args);
  };
  using List = std::vector<std::string>;
  EXPECT_EQ(exchanged(update("f32[5], f32[5], f32[5]", "  return %a, %b, %c\n")), List{"all_gather f32[8]"});
  // What is read in parts is made in parts.
  ShardedRun parts = update("f32[5], f32[]", "  %y = reduce_sum(%c) {axes=[0]}\n  return %a, %y\n");
  EXPECT_EQ(exchanged(parts), (List{"all_gather f32[8]", "all_reduce f32[]"})) << local_text(parts);
}

// The same where the optimizer is written out, and the shards are even.
TEST(Shards, AnOptimizerOfWholeLeavesGathersTheGradientOnce) {
  ShardedRun run = same(
      "func @f(%w: f32[8@{}], %x: f32[4,8@tp], %m: f32[8@{}], %v: f32[8@{}]) -> (f32[8], f32[8], f32[8]) {\n"
      "  %t = tanh(%x)\n  %g = reduce_sum(%t) {axes=[0]} : f32[8@tp]\n  %c = constant() {value=f32[8] {splat 0.1}}\n"
      "  %k = constant() {value=f32[8] {splat 0.9}}\n  %a = mul(%c, %g)\n  %b = mul(%k, %m)\n  %mn = add(%a, %b) : f32[8@{}]\n"
      "  %s = mul(%g, %g)\n  %d = mul(%c, %s)\n  %e = mul(%k, %v)\n  %vn = add(%d, %e) : f32[8@{}]\n  %q = sqrt(%vn)\n"
      "  %r = add(%q, %c)\n  %u = div(%mn, %r)\n  %wn = sub(%w, %u) : f32[8@{}]\n  return %wn, %mn, %vn\n}\n",
      {counting({8}), counting({4, 8}, -12), counting({8}, 2), counting({8}, 3)});
  std::vector<std::string> exchanged;
  for_each_collective(run.local, "f", [&](const ir::Function& f, const ir::Node& n, int64_t) {
    exchanged.push_back(n.op->name + " " + f.type(n.results[0]).str());
  });
  EXPECT_EQ(exchanged, std::vector<std::string>{"all_gather f32[8]"}) << local_text(run);
}

// Positions, and what follows from them, are computed where they are wanted.
TEST(Shards, AMaskOfPositionsIsNotGathered) {
  ShardedRun run = same(
      "func @f(%x: f32[8@tp,8], %y: f32[8,8@tp]) -> (f32[8,8], f32[8,8]) {\n  %i = iota() {shape=[8,8], axis=0, dtype=i32} : i32[8@tp,8]\n"
      "  %j = iota() {shape=[8,8], axis=1, dtype=i32}\n  %m = le(%j, %i) : bool[8@tp,8]\n  %z = constant() {value=f32[8,8] {splat 0}}\n"
      "  %a = select(%m, %x, %z)\n  %b = select(%m, %y, %z)\n  %p = exp(%a) : f32[8@tp,8]\n  %q = exp(%b) : f32[8,8@tp]\n"
      "  return %p, %q\n}\n",
      {counting({8, 8}, -30), counting({8, 8}, -40)});
  EXPECT_FALSE(says(local_text(run), "bool") && says(local_text(run), "all_")) << local_text(run);
}

TEST(Shards, WhatALoopOrAReshapeGathersIsSaid) {
  ShardedRun loop = same(
      "func @body(%c: f32[2], %x: f32[2]) -> (f32[2]) {\n  %n = add(%c, %x)\n  return %n\n}\n"
      "func @f(%c: f32[2], %x: f32[4@tp,2]) -> (f32[2]) {\n  %y = scan(%c, %x) {body=@body, carries=1, length=[4]}\n  return %y\n}\n",
      {counting({2}), counting({4, 2})});
  ASSERT_EQ(loop.remarks.size(), 1u);
  EXPECT_EQ(loop.remarks[0].text,
            "scan runs all iterations on every rank, but dimension 0 of %x, of which each takes a slice, is sharded over {tp}: %x is "
            "gathered, 32 bytes on every rank");
  ShardedRun reshape = same(
      "func @f(%x: f32[12@tp]) -> (f32[3,4]) {\n  %e = exp(%x)\n  %y = reshape(%e) {shape=[3,4]}\n  %z = tanh(%y)\n  return %z\n}\n",
      {counting({12}, -12)});
  ASSERT_EQ(reshape.remarks.size(), 1u) << print(reshape.local);
  EXPECT_EQ(reshape.remarks[0].text,
            "reshape to f32[3,4] has no dimension that 4 shards along {tp} divide: %e is gathered, 48 bytes on every rank");
}

// The ranks round %s in their own ways, perhaps: they agree before they take a branch in which they exchange something.
TEST(Shards, RanksAgreeOnABranchInWhichTheyExchange) {
  const std::string branches =
      "func @yes(%x: f32[8]) -> (f32[]) {\n  %s = reduce_sum(%x) {axes=[0]}\n  return %s\n}\n"
      "func @no(%x: f32[8]) -> (f32[]) {\n  %s = reduce_max(%x) {axes=[0]}\n  return %s\n}\n";
  const std::string tail = "  %y = cond(%p, %x) {then=@yes, else=@no}\n  return %y\n}\n";
  auto chosen_by = [&](const std::string& dtype) {
    return branches + "func @f(%x: f32[8@tp], %s: " + dtype + "[]) -> (f32[]) {\n  %z = constant() {value=" + dtype +
           "[] {0}}\n  %p = lt(%z, %s)\n" + tail;
  };
  ShardedRun by_float = same(chosen_by("f32"), {counting({8}), counting({})});
  EXPECT_TRUE(says(local_text(by_float), "all_reduce(%p)")) << local_text(by_float);
  ShardedRun by_count = same(chosen_by("i32"), {counting({8}), Literal::scalar_int(DType::kI32, 3)});
  EXPECT_FALSE(says(local_text(by_count), "all_reduce(%p)")) << local_text(by_count);
  EXPECT_TRUE(says(local_text(by_count), "all_reduce")) << local_text(by_count);
}

TEST(Shards, RanksAgreeOnTheEndOfALoopInWhichTheyExchange) {
  ShardedRun run = same(
      "func @more(%c: f32[8]) -> (bool[]) {\n  %s = reduce_sum(%c) {axes=[0]}\n  %l = constant() {value=f32[] {1}}\n"
      "  %p = lt(%l, %s)\n  return %p\n}\n"
      "func @half(%c: f32[8]) -> (f32[8]) {\n  %h = constant() {value=f32[8] {splat 0.5}}\n  %n = mul(%c, %h)\n  return %n\n}\n"
      "func @f(%c: f32[8@tp]) -> (f32[8]) {\n  %y = while(%c) {cond=@more, body=@half, consts=0}\n  return %y\n}\n",
      {counting({8})});
  EXPECT_TRUE(says(local_text(run), "cond=@more.agreed")) << local_text(run);
}

// A kernel of the user's whose factors say what may be split runs on the parts, as does its reference.
TEST(Shards, AUserKernelWithAReferenceIsSplitByItsFactors) {
  ShardedRun run = same(
      "func @ref(%x: f32[12]) -> (f32[12]) {\n  %l = logistic(%x)\n  %y = mul(%x, %l)\n  return %y\n}\n"
      "func @f(%x: f32[12@tp]) -> (f32[12]) {\n  %y = custom_call(%x) {name=\"swish\", cpp=\"\", signature=\"f32[n] -> f32[n]\", "
      "factors=\"n->n\", reference=[@ref]}\n  return %y\n}\n",
      {counting({12}, -6)});
  EXPECT_TRUE(says(local_text(run), "custom_call(%x)") && says(local_text(run), "%y = custom_call") && says(local_text(run), "f32[3]"))
      << local_text(run);
  EXPECT_TRUE(run.remarks.empty()) << run.remarks[0].text;
}

TEST(Padding, MoreThanMayBeGatheredIsRefused) {
  ir::Module m = parsed("func @f(%x: f32[5@tp] allow_padding) -> (i32[5]) {\n  %s = argsort(%x) {axis=0}\n  return %s\n}\n");
  ir::Target target;
  passes::PassContext context{ops::all_ops(), target, {.max_gather_bytes = {16}}};
  Result<ir::Module> padded = passes::pad_shards(m, context);
  ASSERT_FALSE(padded.ok());
  EXPECT_EQ(padded.errors()[0].message,
            "argsort has no rule that masks padding: %x would be gathered, 20 bytes on every rank, at most 16 are allowed");
}

// A running value carries its total into the padding behind the last element.
TEST(Padding, SumsOfRunningValuesAreMasked) {
  for (const char* op : {"cumsum", "cumprod", "cummax", "cummin"})
    for (const char* attrs : {"axis=0", "axis=0, exclusive=true", "axis=0, reverse=true"}) {
      if (std::string(op) != "cumsum" && std::string(attrs).find("exclusive") != std::string::npos) continue;
      same(fmt::format("func @f(%x: f32[10@tp] allow_padding) -> (f32[], f32[], f32[10]) {{\n  %c = {}(%x) {{{}}}\n"
                       "  %n = neg(%c)\n  %s = reduce_sum(%n) {{axes=[0]}}\n"
                       "  %d = dot_general(%c, %c) {{lhs_contract=[0], rhs_contract=[0]}}\n  return %s, %d, %c\n}}\n",
                       op, attrs),
           {counting({10}, -3)});
    }
}

TEST(Padding, StateThatARunningSumWritesIsZeroInThePadding) {
  ir::Module m = parsed(
      "state w: f32[10@tp] allow_padding\n"
      "entry next calls @f {\n reads w\n writes w\n outputs s\n}\n"
      "func @f(%w: f32[10@tp] allow_padding) -> (f32[10], f32[]) {\n  %c = cumsum(%w) {axis=0}\n"
      "  %s = reduce_sum(%c) {axes=[0]}\n  return %c, %s\n}\n");
  std::vector<Literal> expected = transforms::run(m, "f", {counting({10})});
  expect_padding_as_claimed(m, "f", {counting({10})}, expected, "@f");
  Result<ShardedRun> run = run_sharded(m, "f", {counting({10})});
  ASSERT_TRUE(run.ok()) << to_string(run.errors());
  EXPECT_FALSE(property::difference(expected, run->results)) << local_text(*run);
  EXPECT_EQ(run->results[1].get(0), 220);
}

TEST(Padding, CarriesOfLoops) {
  same(R"(func @body(%c: f32[5], %x: f32[2]) -> (f32[5]) {
  %s = reduce_sum(%c) {axes=[0]}
  %b = broadcast_in_dim(%s) {shape=[5], dims=[]}
  %h = dot_general(%x, %x) {lhs_contract=[0], rhs_contract=[0]}
  %k = broadcast_in_dim(%h) {shape=[5], dims=[]}
  %e = add(%b, %k)
  %n = sub(%c, %e)
  return %n
}
func @f(%c: f32[5@tp] allow_padding, %x: f32[3,2]) -> (f32[5]) {
  %y = scan(%c, %x) {body=@body, carries=1, length=[3]}
  return %y
}
)",
       {counting({5}), counting({3, 2})});
}

TEST(Padding, IsRefusedWhereItCannotBe) {
  auto refused = [](const std::string& param) {
    std::string text = "nabla 1 flat\nsymbol n in [1, 64]\nmesh pod = {tp=4, mb=2 temporal}\nfunc @f(%x: " + param +
                       ") {\n  return %x\n}\n";
    Result<ir::Module> m = ir::parse_module(text, "test.nbl", ops::all_ops());
    return m.ok() ? "accepted" : to_string(m.errors());
  };
  std::string uneven = refused("f32[10@tp]"), symbolic = refused("f32[n@tp] allow_padding");
  EXPECT_TRUE(says(uneven, "dimension 0 of f32[10] has 10 elements, which 4 shards along {tp} do not divide")) << uneven;
  EXPECT_TRUE(says(uneven, "say allow_padding beside the layout: shards have 3 elements then")) << uneven;
  EXPECT_TRUE(says(symbolic, "allow_padding pads dimensions of a static length alone")) << symbolic;
  EXPECT_TRUE(says(refused("f32[5@mb] allow_padding"), "microbatches along mb are not padded"));
}

class PaddedOps : public testing::TestWithParam<std::string> {};

TEST_P(PaddedOps, AreTheSame) {
  const ir::OpDef& op = ops::all_ops().get(GetParam());
  for (const property::Case& c : property::cases_of(op, 4, property::Precision::kAll)) {
    if (!is_comparable(c) || (op.lacks_reference && !op.lacks_reference(c.attrs).empty())) continue;
    Comparison comparison = of_case(c, false, 3);
    comparison.draw = [&](const ir::Mesh& mesh, ir::Rng& rng) { return laid_out(property::single(c).function, mesh, rng, true); };
    expect_same(comparison);
    for (uint64_t draw = 0; draw < samples(2) && !HasFatalFailure(); ++draw) {
      ir::Module m = comparison.flat;
      m.meshes = {kMeshes[(draw + c.seed) % 5]};
      ir::Rng rng(c.seed * 17 + draw);
      m.set(std::make_shared<const ir::Function>(laid_out(*m.find(comparison.function), m.meshes[0], rng, true)));
      expect_padding_as_claimed(m, comparison.function, comparison.args, comparison.expected, comparison.what);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, PaddedOps, testing::ValuesIn(names_of_sharded_ops()), [](const auto& info) { return info.param; });

// Of programs: how many were padded, and of how many the layouts contradict each other.
struct Count {
  int padded = 0, refused = 0;
};

void expect_same(const ir::Module& flat, const std::string& function, const std::vector<Literal>& args, const std::string& what,
                 Count& count) {
  std::vector<Literal> expected = transforms::run(flat, function, args);
  Result<ShardedRun> got = run_sharded(flat, function, args);
  // The random layouts of a loop's carries may contradict each other.
  if (!got.ok() && got.errors()[0].code == Code::kBadSharding) return void(++count.refused);
  ASSERT_TRUE(got.ok()) << what << to_string(got.errors()) << print(flat);
  count.padded += got->padded;
  ASSERT_NO_FATAL_FAILURE(expect_padding_as_claimed(flat, function, args, expected, what, property::Tolerance{1e-9}));
  auto text = property::difference(expected, got->results, property::Tolerance{1e-9});
  ASSERT_FALSE(text) << what << ": " << *text << "\n" << print(flat) << print(got->sharded) << print(got->local);
}

TEST(PaddedPrograms, RandomFunctionsAndTheirGradientsAreTheSame) {
  Count count;
  for (uint64_t seed = 1; seed <= samples(100); ++seed) {
    ir::Module m;
    transforms::add(m, transforms::random_function("f", seed, 4 + static_cast<int>(seed % 12)));
    transforms::add_wrapper(m, "g", "grad", "f", {{"wrt", ir::Ints{0, 1, 2}}});
    m = transforms::flattened(m);
    const ir::Mesh& mesh = kMeshes[seed % 5];
    m.meshes = {mesh};
    ir::Rng rng(seed);
    for (const char* name : {"f", "g"}) {
      m.set(std::make_shared<const ir::Function>(laid_out(*m.find(name), mesh, rng, true)));
      expect_same(m, name, transforms::random_args(*m.find(name), seed), fmt::format("seed {} @{} on {}", seed, name, mesh.name), count);
    }
  }
  EXPECT_GE(count.padded, 100);
  EXPECT_EQ(count.refused, 0);
}

// Chains of ops that carry values along a dimension, move them, combine them, and are linear or not.
ir::Function running_function(uint64_t seed) {
  ir::Rng rng(seed);
  ir::FunctionBuilder b("f", ops::all_ops());
  const ir::Shape shape = {static_cast<int64_t>(3 + rng() % 9), static_cast<int64_t>(2 + rng() % 6)};
  ir::Val x = b.param("x", {DType::kF64, shape}), y = b.param("y", {DType::kF64, shape});
  std::vector<ir::Val> pool = {x, y};
  auto any = [&] { return pool[rng() % pool.size()]; };
  auto running = [&](const char* name, ir::Val v) {
    ir::Attrs attrs = {{"axis", static_cast<int64_t>(rng() % 2)}, {"reverse", rng() % 3 == 0}};
    if (std::string(name) == "cumsum") attrs.set("exclusive", rng() % 3 == 0);
    return b.op(name, {v}, attrs);
  };
  auto along = [&](const char* name, ir::Val v) {
    auto axis = static_cast<int64_t>(rng() % 2);
    return ir::broadcast_in_dim(b.op(name, {v}, {{"axes", ir::Ints{axis}}}), shape, {1 - axis});
  };
  for (int step = 0; step < 6; ++step) {
    switch (rng() % 8) {
      case 0:
      case 1:
        pool.push_back(running("cumsum", any()));
        break;
      case 2:
        pool.push_back(running(rng() % 2 ? "cumprod" : "cummax", b.op("tanh", {any()})));
        break;
      case 3:
        pool.push_back(any() * 0.5);
        break;
      case 4:
        pool.push_back(rng() % 2 ? any() + any() : any() - any());
        break;
      case 5:
        pool.push_back(along(rng() % 2 ? "reduce_sum" : "reduce_max", any()) * 0.1);
        break;
      case 6:
        pool.push_back(ir::transpose(b.op("cumsum", {ir::transpose(any(), {1, 0})}, {{"axis", int64_t(rng() % 2)}}), {1, 0}));
        break;
      default:
        pool.push_back(b.op("exp", {b.op("tanh", {any()})}));
    }
  }
  ir::Val last = pool.back(), other = any();
  ir::Val product = b.op("dot_general", {last, other}, {{"lhs_contract", ir::Ints{0}}, {"rhs_contract", ir::Ints{0}}});
  return b.finish({ir::reduce_sum(last, {0, 1}), product, ir::reduce_sum(other, {1}), last});
}

TEST(PaddedPrograms, RunningValuesAndTheirGradientsAreTheSame) {
  Count count;
  for (uint64_t seed = 1; seed <= samples(60); ++seed) {
    ir::Module m;
    transforms::add(m, running_function(seed));
    transforms::add_wrapper(m, "g", "grad", "f", {{"wrt", ir::Ints{0, 1}}});
    m = transforms::flattened(m);
    m.meshes = {kMeshes[seed % 5]};
    ir::Rng rng(seed);
    for (const char* name : {"f", "g"}) {
      m.set(std::make_shared<const ir::Function>(laid_out(*m.find(name), m.meshes[0], rng, true)));
      std::vector<Literal> args = transforms::random_args(*m.find(name), seed);
      expect_same(m, name, args, fmt::format("seed {} @{} on {}", seed, name, m.meshes[0].name), count);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GE(count.padded, 60);
  EXPECT_EQ(count.refused, 0);
}

TEST(PaddedPrograms, LoopsAndBranchesAreTheSame) {
  Count count;
  for (uint64_t seed = 1; seed <= samples(60); ++seed) {
    ir::Module m = transforms::flattened(transforms::random_program("f", seed, 5, true));
    const ir::Mesh& mesh = kMeshes[seed % 5];
    m.meshes = {mesh};
    ir::Rng rng(seed);
    m.set(std::make_shared<const ir::Function>(laid_out(*m.find("f"), mesh, rng, true)));
    expect_same(m, "f", transforms::random_args(*m.find("f"), seed), fmt::format("seed {} on {}", seed, mesh.name), count);
  }
  EXPECT_GE(count.padded, 30);
  EXPECT_LE(count.refused, count.padded);
}

}  // namespace
}  // namespace nabla::shard_tests
