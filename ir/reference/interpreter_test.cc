#include "ir/reference/interpreter.h"

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/ops/all_ops.h"

namespace nabla::ir {
namespace {

Type f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

Literal ramp(DType dtype, std::vector<int64_t> shape) {
  Literal out(dtype, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, static_cast<double>(i));
  return out;
}

Module with(Function f, Module module = {}) {
  module.stage = Stage::kFlat;
  module.set(std::make_shared<const Function>(std::move(f)));
  return module;
}

// x -> x + x
Module doubling(const Shape& shape) {
  FunctionBuilder b("double", ops::all_ops());
  Val x = b.param("x", f32(shape));
  return with(b.finish({x + x}));
}

TEST(Interpreter, RunsCallsAndReturnsAParameterTwice) {
  Module module = doubling({3});
  FunctionBuilder b("main", ops::all_ops(), &module);
  Val x = b.param("x", f32({3}));
  Val y = b.op("call", {x}, {{"callee", FunctionRef{"double"}}});
  module = with(b.finish({y, x, x}), module);
  auto results = interpret(module, "main", {ramp(DType::kF32, {3})});
  ASSERT_TRUE(results.ok()) << to_string(results.errors());
  EXPECT_EQ((*results)[0].str(), "f32[3] {0, 2, 4}");
  EXPECT_EQ((*results)[1], (*results)[2]);
}

TEST(Interpreter, TakesSymbolsFromTheArguments) {
  Dim n = Dim::symbol(std::make_shared<Symbol>(Symbol{"n", 2, 8, 2}));
  FunctionBuilder b("main", ops::all_ops());
  Val x = b.param("x", f32({n, 3}));
  Module module = with(b.finish({reshape(x, {n * 3}) + b.fill(DType::kF32, {n * 3}, 1)}));
  auto results = interpret(module, "main", {ramp(DType::kF32, {2, 3})});
  ASSERT_TRUE(results.ok()) << to_string(results.errors());
  EXPECT_EQ((*results)[0].str(), "f32[6] {1, 2, 3, 4, 5, 6}");
  auto odd = interpret(module, "main", {ramp(DType::kF32, {3, 3})});
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.errors()[0].code, Code::kShapeMismatch);
}

TEST(Interpreter, RefusesWrongArgumentsWithTheirTypes) {
  Module module = doubling({3});
  auto code = [&](std::string_view f, std::vector<Literal> args) {
    return interpret(module, f, args).errors()[0].code;
  };
  EXPECT_EQ(code("doubel", {}), Code::kUnknownName);
  EXPECT_EQ(code("double", {}), Code::kOperandCount);
  EXPECT_EQ(code("double", {ramp(DType::kI32, {3})}), Code::kDTypeMismatch);
  EXPECT_EQ(code("double", {ramp(DType::kF32, {4})}), Code::kShapeMismatch);
  EXPECT_NE(interpret(module, "doubel", {}).errors()[0].message.find("`double`"), std::string::npos);
}

TEST(Interpreter, RefusesFunctionsThatCallEachOtherInACycle) {
  Module module = doubling({});
  FunctionBuilder b("main", ops::all_ops(), &module);
  Val x = b.param("x", f32({}));
  Function f = b.finish({b.op("call", {x}, {{"callee", FunctionRef{"double"}}})});
  f.name = "double";
  module = with(std::move(f), module);
  EXPECT_EQ(interpret(module, "double", {ramp(DType::kF32, {})}).errors()[0].code, Code::kRecursion);
}

TEST(Interpreter, WideningRemovesRoundingButKeepsRandomNumbers) {
  FunctionBuilder b("main", ops::all_ops());
  Val x = b.param("x", {DType::kBF16, {}});
  Val key = b.param("key", {DType::kU32, {2}});
  Val noise = b.op("rng_uniform", {key}, {{"shape", Shape{4}}});
  Module module = with(b.finish({x + b.fill(DType::kBF16, {}, 1.0 / 1024), noise}));
  Module wide = widen_to_f64(module);
  Literal one = Literal::scalar(DType::kBF16, 1), seed = ramp(DType::kU32, {2});
  auto narrow_results = interpret(module, "main", {one, seed});
  auto wide_results = interpret(wide, "main", {widen_to_f64(one), seed});
  ASSERT_TRUE(wide_results.ok()) << to_string(wide_results.errors());
  EXPECT_EQ((*narrow_results)[0].get(0), 1);
  EXPECT_EQ((*wide_results)[0].get(0), 1 + 1.0 / 1024);
  EXPECT_EQ((*wide_results)[1], widen_to_f64((*narrow_results)[1]));
}

}  // namespace
}  // namespace nabla::ir
