// OpDef::as_size against the references of the ops.
#include <gtest/gtest.h>

#include <random>

#include "ir/ops/all_ops.h"

namespace nabla::ops {
namespace {

using ir::Dim;

// The op on known scalars, by its rule for sizes and by its reference.
void expect_same(const ir::OpDef& op, const std::vector<ir::Type>& types, const std::vector<int64_t>& values, const ir::Attrs& attrs) {
  std::vector<Literal> operands;
  ir::SizeContext sizes{attrs, {}, nullptr};
  for (size_t i = 0; i < types.size(); ++i) {
    operands.push_back(Literal::scalar_int(types[i].dtype, values[i]));
    sizes.operands.push_back(Dim(values[i]));
  }
  const std::vector<ir::Type> results = ir::infer_types(op, types, attrs, nullptr).value();
  const ir::TypedOp typed{op, types, attrs, results};
  const std::vector<Literal> want = op.reference(ir::EvalContext{typed, operands, nullptr});
  const std::optional<Dim> got = op.as_size(sizes);
  ASSERT_TRUE(got.has_value()) << op.name;
  EXPECT_EQ(got->value(), want[0].get_i(0)) << op.name << " of " << values[0] << ", " << values.back();
}

TEST(IndexArithmetic, SizesAreWhatTheReferencesCompute) {
  const ir::Type number(DType::kI64, {}), truth(DType::kBool, {});
  std::mt19937_64 rng(1);
  int ops = 0;
  for (const ir::OpDef& op : all_ops().all()) {
    if (op.as_size == nullptr || op.operands.empty()) continue;
    ++ops;
    for (int draw = 0; draw < 50; ++draw) {
      std::vector<ir::Type> types(op.operands.size(), number);
      std::vector<int64_t> values;
      for (size_t i = 0; i < types.size(); ++i) values.push_back(static_cast<int64_t>(rng() % 9) - 4);
      if (op.operands.size() == 3) types[0] = truth, values[0] = static_cast<int64_t>(rng() % 2);  // select
      ir::Attrs attrs;
      if (op.form == ir::OpForm::kConvert) attrs.set("dtype", DType::kI32);
      if (op.form == ir::OpForm::kReshape) attrs.set("shape", ir::Shape());
      expect_same(op, types, values, attrs);
    }
  }
  EXPECT_EQ(ops, 7);  // add, sub, mul, lt, select, convert, reshape
}

TEST(IndexArithmetic, WhatDependsOnSymbolsIsNotKnown) {
  const auto n = std::make_shared<const ir::Symbol>(ir::Symbol{"n", 1, 8, 1});
  const ir::OpDef &less = all_ops().get("lt"), &select = all_ops().get("select");
  const ir::Attrs none;
  EXPECT_FALSE(less.as_size({none, {Dim::symbol(n), Dim(4)}, nullptr}).has_value());
  EXPECT_TRUE(less.as_size({none, {Dim::symbol(n), Dim(9)}, nullptr})->is(1));
  EXPECT_TRUE(less.as_size({none, {Dim::symbol(n), Dim(1)}, nullptr})->is(0));
  EXPECT_FALSE(less.as_size({none, {std::nullopt, Dim(1)}, nullptr}).has_value());
  EXPECT_FALSE(select.as_size({none, {std::nullopt, Dim(1), Dim(2)}, nullptr}).has_value());
}

}  // namespace
}  // namespace nabla::ops
