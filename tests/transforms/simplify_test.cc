// Folding, merging and dead code; and all simplifying passes together on random functions and their gradients.
#include "passes/simplify/simplify.h"

#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "tests/property/compare.h"
#include "tests/transforms/random_function.h"

namespace nabla::transforms {
namespace {

using ir::FunctionBuilder;
using ir::Ints;
using ir::Module;
using ir::Val;

ir::Type f32(ir::Shape shape = {}) { return {DType::kF32, std::move(shape)}; }

Module flat(ir::Function f) {
  Module m;
  m.stage = ir::Stage::kFlat;
  add(m, std::move(f));
  return m;
}

Literal ramp(std::vector<int64_t> shape) {
  Literal out(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, static_cast<double>(i % 7));
  return out;
}

TEST(FoldConstants, ComputesWhatDependsOnConstantsAlone) {
  FunctionBuilder b("f", ops::all_ops());
  Val c = b.constant(ramp({4}));
  Module m = flat(b.finish({reduce_sum(c * c + c, {0}) * b.param("x", f32())}));
  Module out = apply(passes::fold_constants, m);
  EXPECT_EQ(count_ops(out, "f", "constant"), 1);
  EXPECT_EQ(out.find("f")->nodes.size(), 2u);
  EXPECT_EQ(out.find("f")->nodes[0].attrs.get_literal("value"), Literal::scalar(DType::kF32, 20));
}

TEST(FoldConstants, LeavesLargeResultsUnlessTheOperandsAreLarger) {
  FunctionBuilder b("f", ops::all_ops());
  Val c = b.constant(ramp({70, 70}));
  Module m = flat(b.finish({b.op("exp", {c}), reduce_sum(c, {0, 1})}));
  Module out = apply(passes::fold_constants, m);
  EXPECT_EQ(count_ops(out, "f", "exp"), 1) << "4900 elements of 4900";
  EXPECT_EQ(count_ops(out, "f", "reduce_sum"), 0) << "one element of 4900";
}

TEST(FoldConstants, NeverFoldsRandomNumbers) {
  FunctionBuilder b("f", ops::all_ops());
  Val key = b.constant(Literal(DType::kU32, {2}));
  Module m = flat(b.finish({b.op("rng_uniform", {key}, {{"shape", ir::Shape{4}}})}));
  EXPECT_EQ(apply(passes::fold_constants, m).find("f"), m.find("f"));
}

TEST(MergeCommonSubexpressions, MergesEqualNodesAndSwappedOperandsOfCommutativeOps) {
  FunctionBuilder b("f", ops::all_ops());
  Val x = b.param("x", f32({3})), y = b.param("y", f32({3}));
  Val first = b.op("exp", {x * y}), second = b.op("exp", {y * x});
  Module m = flat(b.finish({first - second, x - y, y - x}));
  Module out = apply(passes::merge_common_subexpressions, m);
  EXPECT_EQ(count_ops(out, "f", "mul"), 1);
  EXPECT_EQ(count_ops(out, "f", "exp"), 1);
  EXPECT_EQ(count_ops(out, "f", "sub"), 3) << "x - y is not y - x";
}

TEST(MergeCommonSubexpressions, KeepsNodesWhoseAttributesOrKeysDiffer) {
  FunctionBuilder b("f", ops::all_ops());
  Val k = b.param("k", {DType::kU32, {2}}), l = b.param("l", {DType::kU32, {2}});
  auto draw = [&](Val key, double high) {
    return b.op("rng_uniform", {key}, {{"shape", ir::Shape{4}}, {"high", high}});
  };
  Module m = flat(b.finish({draw(k, 1), draw(l, 1), draw(k, 2), draw(k, 1)}));
  EXPECT_EQ(count_ops(apply(passes::merge_common_subexpressions, m), "f", "rng_uniform"), 3);
}

TEST(EliminateDeadCode, DropsWhatNobodyUsesAndKeepsAuxiliaryResultsListed) {
  FunctionBuilder b("f", ops::all_ops());
  Val x = b.param("x", f32({2, 3})), v = b.param("v", f32({3}));
  b.op("exp", {b.op("tanh", {x})});
  Val y = b.op("layer_norm", {x, v, v});
  Module out = apply(passes::eliminate_dead_code, flat(b.finish({y})));
  ASSERT_EQ(out.find("f")->nodes.size(), 1u);
  EXPECT_EQ(out.find("f")->nodes[0].results.size(), 3u);
}

TEST(Simplify, UntouchedFunctionsAreShared) {
  FunctionBuilder b("f", ops::all_ops());
  Val x = b.param("x", f32({2}));
  Module m = flat(b.finish({b.op("exp", {x})}));
  for (auto pass :
       {passes::canonicalize, passes::fold_constants, passes::merge_common_subexpressions, passes::eliminate_dead_code})
    EXPECT_EQ(apply(pass, m).find("f"), m.find("f"));
}

TEST(Simplify, NamesAndLocationsSurvive) {
  FunctionBuilder b("f", ops::all_ops());
  auto here = std::make_shared<Location>(Location{"model.cc", 3, 1, "f", "y = -(-x) * 2"});
  b.set_location(here);
  Val x = b.param("x", f32({2}));
  Val y = (-(-x)) / b.like(x, 2);
  b.name_value(y, "half");
  Module out = apply(passes::canonicalize, flat(b.finish({y})));
  const ir::Function& f = *out.find("f");
  EXPECT_EQ(f.values[f.results[0]].name, "half");
  EXPECT_EQ(f.nodes.back().location, here);
}

// A gradient step of a random function, ready for simplification.
Module random_flat(uint64_t seed) {
  Module m;
  add(m, random_function("f", seed, 10));
  add_wrapper(m, "g", "value_and_grad", "f", {{"wrt", Ints{0, 1, 2, 3}}});
  return flattened(m);
}

Module simplified(Module m) {
  for (auto pass : {passes::eliminate_dead_code, passes::canonicalize, passes::fold_constants, passes::canonicalize,
                    passes::merge_common_subexpressions, passes::eliminate_dead_code})
    m = apply(pass, m);
  return m;
}

TEST(Simplify, RandomFunctionsAndTheirGradientsKeepTheirValues) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Module before = random_flat(seed), after = simplified(before);
    auto args = random_args(*before.find("g"), seed);
    EXPECT_EQ(property::difference(run(before, "g", args), run(after, "g", args)), std::nullopt) << "seed " << seed;
    EXPECT_LT(after.find("g")->nodes.size(), before.find("g")->nodes.size()) << "seed " << seed;
  }
}

TEST(Simplify, EveryPassIsIdempotent) {
  for (uint64_t seed = 1; seed <= 20; ++seed)
    for (auto pass : {passes::canonicalize, passes::fold_constants, passes::merge_common_subexpressions,
                      passes::eliminate_dead_code}) {
      Module once = apply(pass, random_flat(seed));
      EXPECT_EQ(apply(pass, once).find("g"), once.find("g")) << "seed " << seed;
    }
}

}  // namespace
}  // namespace nabla::transforms
