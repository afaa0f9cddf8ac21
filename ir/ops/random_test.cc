// Known answers and statistics of the random numbers: reference and access share Philox, so they cannot check it.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/builder.h"
#include "ir/ops/all_ops.h"
#include "ir/reference/interpreter.h"

namespace nabla::ops {
namespace {

Literal key(uint32_t k0, uint32_t k1) {
  Literal out(DType::kU32, {2});
  out.set_i(0, k0);
  out.set_i(1, k1);
  return out;
}

Literal draw(const char* op, const Literal& key, ir::Attrs attrs) {
  ir::FunctionBuilder b("main", all_ops());
  ir::Module module;
  module.set(std::make_shared<const ir::Function>(
      b.finish({b.op(op, {b.param("key", {DType::kU32, {2}})}, std::move(attrs))})));
  return ir::interpret(module, "main", {key}).value()[0];
}

// The mean of f over the elements.
template <class F>
double mean(const Literal& x, F f) {
  double sum = 0;
  for (int64_t i = 0; i < x.size(); ++i) sum += f(x.get(i));
  return sum / static_cast<double>(x.size());
}

TEST(Random, BitsAreThePublishedAnswersOfPhilox) {
  Literal bits = draw("rng_bits", key(0, 0), {{"shape", ir::Shape{4}}});
  const uint32_t expected[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(static_cast<uint32_t>(bits.get_i(i)), expected[i]);
}

TEST(Random, AnElementDependsOnItsPositionAndNotOnTheShape) {
  for (const char* op : {"rng_bits", "rng_uniform", "rng_normal"}) {
    Literal flat = draw(op, key(1, 2), {{"shape", ir::Shape{24}}});
    EXPECT_EQ(draw(op, key(1, 2), {{"shape", ir::Shape{2, 3, 4}}}).reshaped({24}), flat) << op;
    Literal longer = draw(op, key(1, 2), {{"shape", ir::Shape{25}}});
    for (int i = 0; i < 24; ++i) EXPECT_EQ(longer.get(i), flat.get(i)) << op;
    EXPECT_FALSE(draw(op, key(1, 3), {{"shape", ir::Shape{24}}}) == flat) << op;
  }
}

// 20000 draws: the mean of [0, 1) is within 5 sigma of 1/2, 5 * 0.289 / 141 = 0.0103, and so on.
TEST(Random, UniformNumbersFillTheirRangeEvenly) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    Literal x = draw("rng_uniform", key(5, 6), {{"shape", ir::Shape{20000}}, {"dtype", dtype}});
    EXPECT_NEAR(mean(x, [](double v) { return v; }), 0.5, 0.0103);
    EXPECT_NEAR(mean(x, [](double v) { return (v - 0.5) * (v - 0.5); }), 1.0 / 12, 0.003);
    for (int64_t i = 0; i < x.size(); ++i) ASSERT_TRUE(x.get(i) >= 0 && x.get(i) < 1) << x.get(i);
  }
}

TEST(Random, NormalNumbersHaveTheMomentsOfTheNormalDistribution) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    Literal x =
        draw("rng_normal", key(7, 8), {{"shape", ir::Shape{20000}}, {"dtype", dtype}, {"mean", 3.0}, {"stddev", 2.0}});
    auto z = [](double v) { return (v - 3) / 2; };
    EXPECT_NEAR(mean(x, z), 0, 0.036);
    EXPECT_NEAR(mean(x, [&](double v) { return z(v) * z(v); }), 1, 0.05);
    EXPECT_NEAR(mean(x, [&](double v) { return z(v) * z(v) * z(v); }), 0, 0.14);
    EXPECT_NEAR(mean(x, [&](double v) { return std::fabs(z(v)) < 1; }), 0.6827, 0.017);
  }
}

TEST(Random, FoldedKeysDifferFromEachOtherAndFromTheDraws) {
  auto fold = [](uint32_t data) {
    ir::FunctionBuilder b("main", all_ops());
    ir::Module module;
    ir::Val k = b.param("key", {DType::kU32, {2}}), d = b.param("data", {DType::kU32, {}});
    module.set(std::make_shared<const ir::Function>(b.finish({b.op("rng_fold_in", {k, d})})));
    return ir::interpret(module, "main", {key(1, 2), Literal::scalar_int(DType::kU32, data)}).value()[0];
  };
  EXPECT_EQ(fold(3), fold(3));
  EXPECT_FALSE(fold(3) == fold(4));
  Literal bits = draw("rng_bits", key(1, 2), {{"shape", ir::Shape{2}}});
  EXPECT_FALSE(fold(0) == bits);
}

}  // namespace
}  // namespace nabla::ops
