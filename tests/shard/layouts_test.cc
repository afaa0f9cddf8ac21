// Which layouts propagation finds, and what partition makes of them: the cases that people reason about.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "passes/shard/partition.h"
#include "passes/shard/propagate.h"

namespace nabla::shard_tests {
namespace {

struct Made {
  ir::Module sharded, local;
  std::vector<ir::Remark> remarks;
};

Made make(const std::string& mesh, const std::string& params, const std::string& body) {
  Result<ir::Module> m = ir::parse_module(
      "nabla 1 flat\nmesh m = {" + mesh + "}\nfunc @f(" + params + ") {\n" + body + "}\n", "test.nbl", ops::all_ops());
  EXPECT_TRUE(m.ok()) << (m.ok() ? "" : to_string(m.errors()));
  ir::Target target;
  passes::PassContext context{ops::all_ops(), target};
  Made out;
  Result<ir::Module> sharded = passes::propagate(*m, context);
  EXPECT_TRUE(sharded.ok()) << (sharded.ok() ? "" : to_string(sharded.errors()));
  out.sharded = *sharded, out.local = passes::partition(out.sharded, context).value();
  out.remarks = context.remarks;
  return out;
}

// The layout of a named value: "<dp, {}>".
std::string layout(const Made& made, const std::string& name) {
  for (const ir::Value& v : made.sharded.functions[0]->values) {
    if (v.name != name) continue;
    if (!v.sharding) return "whole";
    std::string out;
    for (const ir::DimSharding& d : v.sharding->dims) out += (out.empty() ? "" : " ") + ir::str(d.axes);
    return out;
  }
  return "no such value";
}

std::string collectives(const Made& made) {
  std::string out;
  for (const ir::Node& n : made.local.functions[0]->nodes)
    if (n.op->lower == ir::Lowering::kCollective) out += (out.empty() ? "" : " ") + n.op->name;
  return out;
}

TEST(Layouts, GoForwardAndBackward) {
  Made m = make("dp=2, tp=4", "%x: f32[8@dp,16], %w: f32[16,32], %v: f32[32@tp,16]",
                " %h = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}\n %r = relu(%h)\n"
                " %y = dot_general(%r, %v) {lhs_contract=[1], rhs_contract=[0]}\n return %y\n");
  EXPECT_EQ(layout(m, "w"), "{} {tp}");
  EXPECT_EQ(layout(m, "h"), "{dp} {tp}");
  EXPECT_EQ(layout(m, "y"), "{dp} {}");
  EXPECT_EQ(collectives(m), "all_reduce");
}

// One zero for a parameter and for what the optimizer remembers of it; a leaf that is handed on to another.
TEST(Layouts, LeavesThatAreWrittenAlikeHaveTheirOwn) {
  Result<ir::Module> m = ir::parse_module(R"(nabla 1 flat
mesh m = {dp=4}
state a: f32[8@dp]
state b: f32[8@{}]
state c: f32[8@dp]
entry init calls @init {
  writes a, b, c
  inputs x
}
entry next calls @next {
  reads b
  writes c
}
func @init(%x: f32[8]) {
  %y = exp(%x)
  return %y, %y, %y
}
func @next(%b: f32[8]) {
  return %b
}
)",
                                          "test.nbl", ops::all_ops());
  ASSERT_TRUE(m.ok()) << to_string(m.errors());
  ir::Target target;
  passes::PassContext context{ops::all_ops(), target};
  Result<ir::Module> sharded = passes::propagate(*m, context);
  ASSERT_TRUE(sharded.ok()) << to_string(sharded.errors());
  EXPECT_TRUE(context.remarks.empty()) << context.remarks[0].text;
  ir::Module local = passes::partition(*sharded, context).value();
  std::string types;
  for (const ir::StateLeaf& leaf : local.state) types += leaf.type.str() + " ";
  EXPECT_EQ(types, "f32[2] f32[8] f32[2] ");
}

TEST(Layouts, SumsStayPendingThroughLinearOps) {
  const char* both =
      " %a = reduce_sum(%x) {axes=[0]}\n %b = reduce_sum(%y) {axes=[0]}\n %s = add(%a, %b)\n %n = neg(%s)\n"
      " %t = tanh(%n)\n %u = exp(%n)\n %r = add(%t, %u)\n return %r\n";
  EXPECT_EQ(collectives(make("dp=2", "%x: f32[8@dp,4], %y: f32[6@dp,4]", both)), "all_reduce");
  // Of two terms one is whole already.
  EXPECT_EQ(collectives(make("dp=2", "%x: f32[8@dp,4], %y: f32[6@{},4]", both)), "all_reduce");
}

TEST(Layouts, PendingSumsAreScatteredOntoShards) {
  Made m = make("dp=2", "%x: f32[8@dp,4], %m: f32[4@dp]",
                " %a = reduce_sum(%x) {axes=[0]}\n %s = add(%a, %m)\n return %s\n");
  EXPECT_EQ(collectives(m), "reduce_scatter");
  EXPECT_EQ(layout(m, "s"), "{dp}");
}

TEST(Layouts, AnAxisThatMovesIsExchanged) {
  Made m = make("a=2", "%x: f32[8@a,4]", " %y = shard(%x) {sharding=<{}, a>}\n return %y\n");
  EXPECT_EQ(collectives(m), "all_to_all");
}

TEST(Layouts, ClosedDimensionsStay) {
  Made m = make("a=2", "%x: f32[8@a], %y: f32[8@{}]", " %s = add(%x, %y)\n %t = neg(%s)\n return %t\n");
  EXPECT_EQ(layout(m, "y"), "whole");
  EXPECT_EQ(layout(m, "t"), "{a}");
  EXPECT_EQ(collectives(m), "");  // a part of %y is cut
}

TEST(Layouts, AReshapeCutsAnAxisIntoParts) {
  Made m = make("x=8", "%a: f32[16@x,3]",
                " %b = reshape(%a) {shape=[2, 8, 3]}\n %c = neg(%b)\n %d = reshape(%c) {shape=[16, 3]}\n return %d\n");
  EXPECT_EQ(layout(m, "c"), "{x:(1)2} {x:(2)4} {}");
  EXPECT_EQ(layout(m, "d"), "{x} {}");
  EXPECT_EQ(collectives(m), "");
}

// Any number of axes of one rank divides an extent: each stands once all the same.
TEST(Layouts, AnAxisOfOneRankStandsOnce) {
  Made m = make("a=2, b=1", "%x: f32[2@a,4@b]", " %y = reshape(%x) {shape=[8]}\n return %y\n");
  EXPECT_EQ(layout(m, "y"), "{a, b}");
  m = make("a=2, b=1", "%x: f32[2@a,4@b]", " %y = reshape(%x) {shape=[4, 2]}\n return %y\n");
  EXPECT_EQ(layout(m, "x"), "{a} {b}");
}

TEST(Layouts, AnAxisGoesWhereItDivides) {
  Made m = make("a=4", "%x: f32[8@a,6]",
                " %y = transpose(%x) {permutation=[1, 0]}\n"
                " %z = dot_general(%y, %x) {lhs_contract=[1], rhs_contract=[0]}\n return %z\n");
  EXPECT_EQ(layout(m, "y"), "{} {a}");
  EXPECT_EQ(layout(m, "z"), "whole");
  EXPECT_EQ(collectives(m), "all_reduce");
}

TEST(Layouts, TheLargerTensorWinsAConflict) {
  Made m = make("a=2, b=2", "%x: f32[2,8@a], %w: f32[8@b,64]",
                " %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}\n return %y\n");
  ASSERT_EQ(m.remarks.size(), 1u);
  EXPECT_EQ(m.remarks[0].text, "dot_general: the layout of %w wins over the layout of %x: 64 bytes of tensors are laid out anew, "
                          "not 2048");
  EXPECT_EQ(collectives(m), "permute all_reduce");  // of %x, from {a} to {b}
}

TEST(Layouts, WhatCannotBeSplitIsGatheredAndSaid) {
  Made m = make("a=2", "%x: f32[8@a]", " %s = argsort(%x) {axis=0}\n return %s\n");
  EXPECT_EQ(collectives(m), "all_gather");
  ASSERT_EQ(m.remarks.size(), 1u);
  EXPECT_EQ(m.remarks[0].text,
            "argsort cannot be split along dimension 0 of %x, which lies along {a}: %x is gathered, 32 bytes on every rank");
}

// Gradients of microbatches: a sum for all of them.
TEST(Layouts, CarriesStaySumsUntilTheLoopEnds) {
  Result<ir::Module> m = ir::parse_module(
      "nabla 1 flat\nmesh m = {dp=2}\n"
      "func @body(%w: f32[16,8], %g: f32[16,8], %n: f32[], %x: f32[8@dp,16]) {\n"
      " %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}\n %t = tanh(%y)\n"
      " %d = dot_general(%x, %t) {lhs_contract=[0], rhs_contract=[0]}\n %h = add(%g, %d)\n"
      " %s = reduce_sum(%t) {axes=[0, 1]}\n %e = exp(%s)\n %k = add(%n, %e)\n return %h, %k\n}\n"
      "func @f(%w: f32[16,8], %x: f32[4,8@dp,16]) {\n %z = constant() {value=f32[16,8] {splat 0}}\n"
      " %o = constant() {value=f32[] {0}}\n"
      " %g, %n = scan(%w, %z, %o, %x) {body=@body, consts=1, carries=2, length=[4]}\n %u = sub(%w, %g)\n return %u, "
      "%n\n}\n",
      "test.nbl", ops::all_ops());
  ASSERT_TRUE(m.ok()) << to_string(m.errors());
  ir::Target target;
  passes::PassContext context{ops::all_ops(), target};
  Made made;
  made.local = passes::partition(passes::propagate(*m, context).value(), context).value();
  auto of = [&](const std::string& name) {
    std::string out;
    for (const ir::Node& n : made.local.find(name)->nodes)
      if (n.op->lower == ir::Lowering::kCollective)
        out += n.op->name + " " + made.local.find(name)->type(n.results[0]).str() + "; ";
    return out;
  };
  EXPECT_EQ(of("body"), "all_reduce f32[]; ") << print(made.local);  // of what exp needs whole
  EXPECT_EQ(of("f"), "all_reduce f32[16,8]; ") << print(made.local);
}

// Rows of a table that ranks share, and adding into rows.
TEST(Layouts, RowsAreLookedUpWhereTheyAre) {
  Made m =
      make("dp=2, tp=2", "%t: f32[64@tp,8], %i: i32[4@dp,16]", " %y = embedding(%t, %i)\n %z = tanh(%y)\n return %z\n");
  EXPECT_EQ(collectives(m), "all_reduce");
  EXPECT_TRUE(m.remarks.empty());
  std::string add =
      " %zero = constant() {value=f32[64,8] {splat 0}}\n"
      " %g = scatter_add(%zero, %i, %u) {update_window_dims=[2], inserted_window_dims=[0], "
      "scatter_dims_to_operand_dims=[0], index_vector_dim=2, out_of_range=\"clamp\"}\n %h = add(%g, %t)\n return %h\n";
  // Updates of every rank, summed once; each to the rows that a rank has.
  EXPECT_EQ(collectives(make("dp=2", "%t: f32[64@{},8], %i: i32[64@dp,16], %u: f32[64@dp,16,8]", add)), "all_reduce");
  EXPECT_EQ(collectives(make("tp=2", "%t: f32[64@tp,8], %i: i32[64,16], %u: f32[64,16,8]", add)), "");
  EXPECT_EQ(collectives(make("dp=2, tp=2", "%t: f32[64@tp,8], %i: i32[64@dp,16], %u: f32[64@dp,16,8]", add)),
            "all_reduce");
  // ZeRO: a sum onto shards of the optimizer's state.
  EXPECT_EQ(collectives(make("dp=2", "%t: f32[64@dp,8], %i: i32[64@dp,16], %u: f32[64@dp,16,8]", add)),
            "reduce_scatter");
}

// What it consists of can be: a maximum and a sum over ranks, of a row each.
TEST(Layouts, CompositesAreOpenedWhereTheyLieAcross) {
  Made m = make("a=2", "%x: f32[8,6@a]", " %y = softmax(%x) {axis=1}\n return %y\n");
  EXPECT_EQ(collectives(m), "all_reduce all_reduce");
  EXPECT_EQ(layout(m, "y"), "{} {a}");
  EXPECT_TRUE(m.remarks.empty());
  Made n = make("a=2", "%x: f32[8,6@a], %g: f32[6]", " %y, %r = rms_norm(%x, %g)\n return %y\n");
  EXPECT_EQ(collectives(n), "all_reduce");
  // Not where one that lies along it would do.
  EXPECT_EQ(collectives(make("a=2", "%x: f32[8@a,6]", " %y = softmax(%x) {axis=1}\n return %y\n")), "");
  // Attention over keys would hold all scores: keys are gathered, which a remark says.
  Made k = make("a=2", "%q: f32[1,2,64,8], %k: f32[1,2,64@a,8], %v: f32[1,2,64@a,8]",
                " %y, %l = attention(%q, %k, %v) {scale=0.5}\n return %y\n");
  EXPECT_EQ(collectives(k), "all_gather all_gather");
  EXPECT_EQ(k.remarks.size(), 2u);
}

TEST(Layouts, DrawsKnowWhereTheyStand) {
  Made m = make("a=2", "%k: u32[2]",
                " %u = rng_uniform(%k) {shape=[8, 4], dtype=f32}\n %y = shard(%u) {sharding=<a, {}>}\n return %y\n");
  std::string text = print(m.local);
  EXPECT_NE(text.find("offset=[4*a.index, 0]"), std::string::npos) << text;
  EXPECT_NE(text.find("whole=[8, 4]"), std::string::npos) << text;
}

TEST(Layouts, GroupsAreLaidOutAlike) {
  const char* body = " %a, %b = shard_as(%x, %y)\n %c = neg(%a)\n %d = tanh(%b)\n return %c, %d\n";
  Made m = make("a=2, b=2", "%x: f32[8@a,4], %y: f32[8,4@b]", body);
  EXPECT_EQ(layout(m, "c"), "{a} {b}");
  EXPECT_EQ(layout(m, "d"), "{a} {b}");
  // What cannot be of both stays with the first: the other is laid out anew.
  Made n = make("a=2", "%x: f32[8@a,4@{}], %y: f32[8@{},4@a]", body);
  EXPECT_EQ(layout(n, "c"), layout(n, "d"));
  EXPECT_EQ(collectives(n), "all_to_all");
}

TEST(Layouts, RulesLayResultsOutAsOperandsLie) {
  const char* body = " %s = cumsum(%x) {axis=0}\n %y = shard_by_rule(%s, %x) {rule=\"n d -> n d\"}\n %z = neg(%y)\n return %z\n";
  EXPECT_EQ(layout(make("a=2", "%x: f32[8,4@a]", body), "z"), "{} {a}");
  // From the operand to the result, over a name that the ops between do not take on, and back.
  const char* table = " %t = reshape(%x) {shape=[32]}\n %r = reverse(%t) {axes=[0]}\n"
                      " %y = shard_by_rule(%r, %x) {rule=\"n d -> (n d)\"}\n %z = neg(%y)\n return %z\n";
  EXPECT_EQ(layout(make("a=2", "%x: f32[8@a,4]", table), "z"), "{a}");
  std::string laid_out = table;
  laid_out.replace(laid_out.find("neg(%y)"), 7, "shard(%y) {sharding=<a>}");
  EXPECT_EQ(layout(make("a=2", "%x: f32[8,4]", laid_out), "x"), "{a} {}");
  // What no operand has lies along nothing, whatever the ops between find.
  EXPECT_EQ(layout(make("a=2", "%x: f32[8@a,4], %w: f32[4,6]",
                        " %h = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}\n"
                        " %y = shard_by_rule(%h, %x, %w) {rule=\"m k, k n -> own n\"}\n %z = neg(%y)\n return %z\n"),
                   "z"),
            "whole");
}

TEST(Layouts, BarriersEndPropagation) {
  auto along = [](const char* direction) {
    Made m = make("a=2, b=2", "%x: f32[8@a,4], %y: f32[8,4@b]",
                  " %n = neg(%x)\n %p = propagation_barrier(%n) {direction=\"" + std::string(direction) +
                      "\"}\n %t = tanh(%p)\n %s = add(%t, %y)\n return %s\n");
    return layout(m, "n") + " to " + layout(m, "t");
  };
  EXPECT_EQ(along("none"), "{a} {} to {} {b}");
  EXPECT_EQ(along("forward"), "{a} {} to {a} {b}");
  EXPECT_EQ(along("backward"), "{a} {b} to {} {b}");
  EXPECT_EQ(along("both"), "{a} {b} to {a} {b}");
}

// Both lay out the dimension that is summed over: the smaller number has it, and each its own where they are equal.
TEST(Layouts, PrioritiesComeFirst) {
  auto both = [](const char* x, const char* y) {
    Made m = make("a=2, b=2", fmt::format("%x: f32[8{},2], %y: f32[8{},64]", x, y),
                  " %s = dot_general(%x, %y) {lhs_contract=[0], rhs_contract=[0]}\n return %s\n");
    return layout(m, "x") + " and " + layout(m, "y");
  };
  EXPECT_EQ(both("@{a, ?}", "@{b, ?}"), "{a} {} and {b} {}");
  EXPECT_EQ(both("@{a, ?}", "@{b, ?}p1"), "{a} {} and {a} {}");
  EXPECT_EQ(both("@{a, ?}p2", "@{b, ?}p1"), "{b} {} and {b} {}");
}

// A layout of a weaker priority that a stronger one reached first is not followed, which a remark says.
TEST(Layouts, WeakLayoutsGiveWay) {
  Made m = make("a=2, b=2", "%x: f32[8@a,4]", " %n = neg(%x)\n %y = shard(%n) {sharding=<{b}p1, {}>}\n return %y\n");
  EXPECT_EQ(layout(m, "y"), "{a} {}");
  ASSERT_EQ(m.remarks.size(), 1u);
  EXPECT_EQ(m.remarks[0].text, "dimension 0 of %y (the result of shard) is not laid out along {b}, which was asked for with less weight "
                          "(priority 1): it lies along {a} already");
}

// Elementwise ops and movements are followed before products: an axis that both bring goes where those bring it.
TEST(Layouts, MovementComesBeforeProducts) {
  Made m = make("a=2", "%x: f32[8@a,16], %w: f32[16,8@a], %b: f32[8,8@a]",
                " %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}\n %s = add(%y, %b)\n return %s\n");
  EXPECT_EQ(layout(m, "y"), "{} {a}");
  EXPECT_EQ(collectives(m), "all_gather");  // of %x
}

// Of two dimensions that ask for one axis: the tensor that is costlier to move keeps it.
TEST(Layouts, TheCheaperTensorMoves) {
  auto made = [](const char* x, const char* w) {
    return make("a=2", fmt::format("%x: f32[{}@a,16], %w: f32[16,{}@a]", x, w),
                " %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}\n return %y\n");
  };
  Made m = made("8", "64");
  EXPECT_EQ(layout(m, "y"), "{} {a}");
  ASSERT_EQ(m.remarks.size(), 1u);
  EXPECT_EQ(m.remarks[0].text, "dot_general: {a} along dimension 1 of %y wins over {a} along dimension 0 of %y: 512 bytes of tensors "
                          "are laid out anew, not 4096");
  EXPECT_EQ(layout(made("64", "8"), "y"), "{a} {}");
  EXPECT_EQ(layout(made("8", "8"), "y"), "{a} {}");  // a tie: the first
}

// A batch and a parameter are sharded over one axis. Whichever moves fewer bytes is gathered: a bias or a weight beside many rows,
// the rows beside a large weight. The shape of the parameter, and whether it is added or multiplied, make no difference.
TEST(Layouts, ParametersAreGatheredBesideALargeBatch) {
  auto hidden = [](const char* rows, const char* w, const char* scale, const char* v) {
    Made m = make("a=4", fmt::format("%x: f32[{}@a,64], %w: f32[{}], %b: f32[{}], %v: f32[{}]", rows, w, scale, v),
                  " %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}\n"
                  " %c = broadcast_in_dim(%b) {shape=[" + std::string(rows) + ", 64], dims=[1]}\n"
                  " %s = mul(%y, %c)\n %t = tanh(%s)\n"
                  " %z = dot_general(%t, %v) {lhs_contract=[1], rhs_contract=[0]}\n %h = tanh(%z)\n return %h\n");
    return layout(m, "t") + ", " + layout(m, "h");
  };
  const char *square = "64,64", *flat = "64";
  EXPECT_EQ(hidden("4096", square, "64@a", square), "{a} {}, {a} {}");
  EXPECT_EQ(hidden("4096", "64@a,64", flat, square), "{a} {}, {a} {}");
  EXPECT_EQ(hidden("4096", "64,64@a", flat, square), "{a} {}, {a} {}");
  EXPECT_EQ(hidden("4096", square, flat, "64,64@a"), "{a} {}, {a} {}");
  EXPECT_EQ(hidden("4096", "64@a,64", "64@a", "64,64@a"), "{a} {}, {a} {}");
  EXPECT_EQ(hidden("8", "64,64@a", "64@a", "64@a,64"), "{} {a}, whole");
}

// A zero is the share that every rank has of a sum, so that `0 + a + b` is exchanged once; also a zero that was moved or selected.
TEST(Layouts, ZerosArePendingSums) {
  auto exchanges = [](const std::string& zero, const std::string& sum) {
    return collectives(make("dp=2", "%x: f32[8@dp,4], %y: f32[6@dp,4], %p: bool[4]",
                            " %a = reduce_sum(%x) {axes=[0]}\n %b = reduce_sum(%y) {axes=[0]}\n" + zero + sum +
                                " %t = tanh(%r)\n return %t\n"));
  };
  const std::string moved = " %0 = constant() {value=f32[] {0}}\n %z = broadcast_in_dim(%0) {shape=[4], dims=[]}\n";
  const std::string negative = " %0 = constant() {value=f32[] {0}}\n %1 = broadcast_in_dim(%0) {shape=[4], dims=[]}\n %z = neg(%1)\n";
  for (const std::string& zero : {moved, negative}) {
    EXPECT_EQ(exchanges(zero, " %s = add(%z, %a)\n %r = add(%s, %b)\n"), "all_reduce");
    EXPECT_EQ(exchanges(zero, " %s = sub(%z, %a)\n %r = sub(%b, %s)\n"), "all_reduce");
    EXPECT_EQ(exchanges(zero, " %s = select(%p, %a, %z)\n %r = add(%s, %b)\n"), "all_reduce");
  }
  // Of a number that is not zero every rank would add its own.
  const std::string one = " %0 = constant() {value=f32[] {1}}\n %z = broadcast_in_dim(%0) {shape=[4], dims=[]}\n";
  EXPECT_EQ(exchanges(one, " %s = select(%p, %a, %z)\n %r = add(%s, %b)\n"), "all_reduce all_reduce");
}

// A sum may have pending terms and complete ones. Ranks add the pending terms first, for every order of the program, and exchange once.
TEST(Layouts, PendingTermsAreAddedFirst) {
  auto exchanges = [](const std::string& sum) {
    return collectives(make("dp=2, tp=2", "%x: f32[8@dp,4], %y: f32[6@dp,4], %z: f32[2@dp,4], %u: f32[2@tp,4], %g: f32[4@{}], "
                                          "%h: f32[4@{}]",
                            " %a = reduce_sum(%x) {axes=[0]}\n %b = reduce_sum(%y) {axes=[0]}\n %c = reduce_sum(%z) {axes=[0]}\n"
                            " %d = reduce_sum(%u) {axes=[0]}\n" + sum + " %t = tanh(%r)\n return %t\n"));
  };
  EXPECT_EQ(exchanges(" %1 = add(%g, %a)\n %2 = add(%1, %b)\n %r = add(%2, %c)\n"), "all_reduce");
  EXPECT_EQ(exchanges(" %1 = add(%a, %g)\n %2 = add(%h, %1)\n %r = add(%b, %2)\n"), "all_reduce");
  EXPECT_EQ(exchanges(" %1 = add(%g, %a)\n %2 = add(%b, %h)\n %r = add(%1, %2)\n"), "all_reduce");
  // Over other axes, and for another reader, a sum is made of its own.
  EXPECT_EQ(exchanges(" %1 = add(%g, %a)\n %2 = add(%1, %d)\n %r = add(%2, %b)\n"), "all_reduce all_reduce all_reduce");
  EXPECT_EQ(exchanges(" %1 = add(%g, %a)\n %e = exp(%1)\n %2 = add(%1, %b)\n %r = mul(%2, %e)\n"), "all_reduce all_reduce");
}

// An op of one reader may hand a pending sum on to several results: the sum is made once, before it.
TEST(Layouts, SumsAreMadeBeforeTheyBecomeSeveral) {
  Made m = make("dp=2", "%x: f32[8@dp,4]", " %a = reduce_sum(%x) {axes=[0]}\n %n = neg(%a)\n"
                " %p = broadcast_in_dim(%n) {dims=[1], shape=[16, 4]}\n %t = tanh(%p)\n return %t\n");
  EXPECT_EQ(collectives(m), "all_reduce");
  for (const ir::Node& n : m.local.functions[0]->nodes) {
    if (n.op->lower == ir::Lowering::kCollective) {
      EXPECT_EQ(m.local.functions[0]->type(n.operands[0]).rank(), 1);
    }
  }
}

// The numbers are right, and the ranks were rented for nothing.
TEST(Layouts, AxesThatNothingLiesAlongAreSaid) {
  Made m = make("a=2, b=4", "%x: f32[8@a,4]", " %y = exp(%x)\n return %y\n");
  ASSERT_EQ(m.remarks.size(), 1u);
  EXPECT_EQ(m.remarks[0].text, "axis b: nothing is sharded over it, so that its 4 ranks all compute the same; --layout, --data-axes "
                          "or --auto-shard let them share the work");
}

}  // namespace
}  // namespace nabla::shard_tests
