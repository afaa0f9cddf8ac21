// Values of structured and composite ops that were worked out by hand, derivatives at ties and zeros, where central
// differences say nothing, and types over symbolic sizes. Everything else about them is generated from the records.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/ops/all_ops.h"
#include "ir/reference/interpreter.h"

namespace nabla::ops {
namespace {

using ir::Attrs;
using ir::Dim;
using ir::Ints;
using ir::Shape;
using ir::Type;
using ir::Val;

Literal tensor(std::vector<int64_t> shape, std::vector<double> values, DType dtype = DType::kF32) {
  Literal out(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) out.set(static_cast<int64_t>(i), values[i]);
  return out;
}

std::vector<double> numbers(const Literal& x) {
  std::vector<double> out;
  for (int64_t i = 0; i < x.size(); ++i) out.push_back(x.get(i));
  return out;
}

std::vector<Literal> run(ir::FunctionBuilder& b, const std::vector<Val>& results, std::vector<Literal> args) {
  ir::Module module;
  module.stage = ir::Stage::kFlat;
  module.set(std::make_shared<const ir::Function>(b.finish(results)));
  return ir::interpret(module, "f", std::move(args)).value();
}

std::vector<Val> params_like(ir::FunctionBuilder& b, const std::vector<Literal>& args) {
  std::vector<Val> out;
  for (const Literal& a : args) out.push_back(b.param("x", Type(a.dtype(), ir::static_shape(a.shape()))));
  return out;
}

std::vector<Literal> eval(const char* op, std::vector<Literal> args, Attrs attrs = {}) {
  ir::FunctionBuilder b("f", all_ops());
  std::vector<Val> results = b.add(op, params_like(b, args), std::move(attrs));
  return run(b, results, std::move(args));
}

/// The gradient of sum(ct * op(args)) by operand `wrt`.
std::vector<double> gradient(const char* name, std::vector<Literal> args, Attrs attrs, const Literal& ct, int wrt = 0) {
  ir::FunctionBuilder b("f", all_ops());
  std::vector<Val> params = params_like(b, args);
  std::vector<Val> results = b.add(name, params, std::move(attrs));
  const ir::Node node = b.function().nodes.back();
  std::vector<Type> operand_types, result_types;
  for (Val p : params) operand_types.push_back(p.type());
  for (Val r : results) result_types.push_back(r.type());
  ir::TypedOp op{*node.op, operand_types, node.attrs, result_types};
  std::vector<bool> active(params.size(), false);
  active[wrt] = true;
  std::vector<ir::MaybeVal> cotangents(results.size());
  cotangents[0] = b.constant(ct);
  ir::VjpContext ctx{b, op, params, results, cotangents, active, {}, nullptr};
  ir::MaybeVal g = node.op->vjp(ctx)[wrt];
  return numbers(run(b, {*g}, std::move(args))[0]);
}

std::string inferred(const char* op, const std::vector<Type>& operands, Attrs attrs) {
  const ir::OpDef& record = all_ops().get(op);
  Result<std::vector<Type>> types = ir::infer_types(record, operands, *ir::complete_attrs(record, attrs), {});
  return types.ok() ? (*types)[0].str() : types.errors()[0].message;
}

Dim symbol(const char* name) { return Dim::symbol(std::make_shared<const ir::Symbol>(ir::Symbol{name, 1, 64, 1})); }

using Doubles = std::vector<double>;

TEST(Dot, MultipliesMatricesPerBatchElement) {
  Literal a = tensor({2, 1, 2}, {1, 2, 3, 4}), b = tensor({2, 2, 1}, {5, 6, 7, 8});
  Attrs attrs{{"lhs_contract", Ints{2}}, {"rhs_contract", Ints{1}}, {"lhs_batch", Ints{0}}, {"rhs_batch", Ints{0}}};
  EXPECT_EQ(numbers(eval("dot_general", {a, b}, attrs)[0]), (Doubles{17, 53}));
}

TEST(Dot, AccumulatesNarrowFloatsInF32) {
  // 256 + 1 is no bf16 value: a bf16 sum would stay at 256.
  Literal a(DType::kBF16, {512}), b(DType::kBF16, {512});
  for (int i = 0; i < 512; ++i) a.set(i, 1), b.set(i, 1);
  Attrs attrs{{"lhs_contract", Ints{0}}, {"rhs_contract", Ints{0}}};
  EXPECT_EQ(eval("dot_general", {a, b}, attrs)[0].get(0), 512);
}

TEST(Convolution, PadsStridesAndGroups) {
  Attrs attrs{{"strides", Ints{2}},
              {"padding_low", Ints{1}},
              {"padding_high", Ints{0}},
              {"dilation", Ints{1}},
              {"groups", int64_t{2}}};
  // Channels 0 and 1 of 4 positions; the filter has 2 taps and one output channel per group.
  Literal x = tensor({1, 4, 2}, {1, 10, 2, 20, 3, 30, 4, 40}), w = tensor({2, 1, 2}, {1, 3, 2, 4});
  // Output o reads positions 2o-1 and 2o: (pad, 0) and (1, 2).
  EXPECT_EQ(numbers(eval("convolution", {x, w}, attrs)[0]), (Doubles{2, 40, 2 + 6, 60 + 120}));
}

TEST(Reduce, SharesTheGradientOfAMaximumAmongTies) {
  Literal x = tensor({2, 3}, {5, 1, 5, 2, 3, 1}), ct = tensor({2}, {8, 10});
  EXPECT_EQ(gradient("reduce_max", {x}, {{"axes", Ints{1}}}, ct), (Doubles{4, 0, 4, 0, 10, 0}));
}

TEST(Reduce, DifferentiatesAProductExactlyAtZeros) {
  Literal x = tensor({3, 4}, {2, 3, 4, 5, 2, 0, 4, 5, 0, 3, 0, 5}), ct = tensor({3}, {1, 1, 1});
  EXPECT_EQ(gradient("reduce_prod", {x}, {{"axes", Ints{1}}}, ct), (Doubles{60, 40, 30, 24, 0, 40, 0, 0, 0, 0, 0, 0}));
}

TEST(Reduce, FindsTheFirstOfEqualExtremesAndTheFirstNan) {
  Literal x = tensor({3, 4}, {1, 7, 7, 2, 3, NAN, 9, NAN, 4, 0, 0, 4});
  EXPECT_EQ(numbers(eval("argmax", {x}, {{"axis", int64_t{1}}})[0]), (Doubles{1, 1, 0}));
  EXPECT_EQ(numbers(eval("argmin", {x}, {{"axis", int64_t{1}}})[0]), (Doubles{0, 1, 1}));
}

TEST(Window, GivesTheGradientOfPoolingToTheFirstMaximum) {
  Attrs attrs{{"window", Ints{2}},
              {"strides", Ints{1}},
              {"padding_low", Ints{0}},
              {"padding_high", Ints{0}},
              {"dilation", Ints{1}}};
  Literal x = tensor({4}, {3, 3, 1, 2}), ct = tensor({3}, {1, 10, 100});
  EXPECT_EQ(numbers(eval("reduce_window_max", {x}, attrs)[0]), (Doubles{3, 3, 2}));
  EXPECT_EQ(gradient("reduce_window_max", {x}, attrs, ct), (Doubles{1, 10, 0, 100}));
}

TEST(GatherScatter, ClampsReadsAndDropsWrites) {
  Literal table = tensor({3, 2}, {1, 2, 3, 4, 5, 6}), ids = tensor({3}, {-4, 1, 9}, DType::kI32);
  EXPECT_EQ(numbers(eval("embedding", {table, ids})[0]), (Doubles{1, 2, 3, 4, 5, 6}));
  Attrs attrs{{"update_window_dims", Ints{1}},
              {"inserted_window_dims", Ints{0}},
              {"scatter_dims_to_operand_dims", Ints{0}},
              {"index_vector_dim", int64_t{1}}};
  Literal updates = tensor({3, 2}, {10, 20, 30, 40, 50, 60});
  EXPECT_EQ(numbers(eval("scatter_add", {table, ids, updates}, attrs)[0]), (Doubles{1, 2, 33, 44, 5, 6}));
}

TEST(GatherScatter, LetsTheLastOfSeveralWritesWinInValueAndGradient) {
  Literal x = tensor({2}, {1, 2}), ids = tensor({3}, {1, 1, 0}, DType::kI32), updates = tensor({3}, {5, 6, 7});
  Attrs attrs{{"update_window_dims", Ints{}},
              {"inserted_window_dims", Ints{0}},
              {"scatter_dims_to_operand_dims", Ints{0}},
              {"index_vector_dim", int64_t{1}}};
  EXPECT_EQ(numbers(eval("scatter_set", {x, ids, updates}, attrs)[0]), (Doubles{7, 6}));
  EXPECT_EQ(gradient("scatter_set", {x, ids, updates}, attrs, tensor({2}, {3, 4}), 2), (Doubles{0, 4, 3}));
}

TEST(Activation, HasNoGradientThroughReluAtZero) {
  Literal x = tensor({3}, {-1, 0, 2}), ct = tensor({3}, {1, 1, 1});
  EXPECT_EQ(gradient("relu", {x}, {}, ct), (Doubles{0, 0, 1}));
}

TEST(Softmax, DoesNotOverflow) {
  Literal y = eval("softmax", {tensor({2}, {10000, 10000 + std::log(3.0)}, DType::kF64)}, {{"axis", int64_t{0}}})[0];
  EXPECT_NEAR(y.get(0), 0.25, 1e-9);
  EXPECT_NEAR(y.get(1), 0.75, 1e-9);
}

TEST(CrossEntropy, IsNanForALabelOutsideOfTheClasses) {
  Literal x = tensor({3, 2}, {0, 0, 1, 1, 2, 2}, DType::kF64), labels = tensor({3}, {0, 2, -1}, DType::kI32);
  Literal loss = eval("cross_entropy", {x, labels})[0];
  EXPECT_NEAR(loss.get(0), std::log(2.0), 1e-12);
  EXPECT_TRUE(std::isnan(loss.get(1)) && std::isnan(loss.get(2)));
  Doubles g = gradient("cross_entropy", {x, labels}, {}, tensor({3}, {1, 1, 1}, DType::kF64));
  EXPECT_NEAR(g[0], -0.5, 1e-12);
  EXPECT_TRUE(std::isnan(g[2]) && std::isnan(g[5]));
}

TEST(AdamW, MovesByTheLearningRateInItsFirstStep) {
  // In the first step m / (1 - beta1) is the gradient and the denominator its magnitude.
  Literal p = tensor({2}, {1, 1}), g = tensor({2}, {0.001, -100}), zero = tensor({2}, {0, 0});
  std::vector<Literal> out = eval("adamw_update", {p, g, zero, zero, tensor({}, {1}, DType::kI32), tensor({}, {0.1})},
                                  {{"weight_decay", 0.5}});
  EXPECT_NEAR(out[0].get(0), 0.95 - 0.1, 1e-5);
  EXPECT_NEAR(out[0].get(1), 0.95 + 0.1, 1e-6);
}

TEST(Symbolic, SizesPassThroughEveryFamily) {
  Dim n = symbol("n"), len = symbol("len");
  auto f32 = [](Shape s) { return Type(DType::kF32, std::move(s)); };
  auto i32 = [](Shape s) { return Type(DType::kI32, std::move(s)); };
  Attrs conv{{"strides", Ints{2}}, {"padding_low", Ints{1}}, {"padding_high", Ints{1}}, {"dilation", Ints{1}}};
  struct Row {
    const char* op;
    std::vector<Type> operands;
    Attrs attrs;
    const char* result;
  } rows[] = {
      {"dot_general", {f32({n, 8}), f32({8, 4})}, {{"lhs_contract", Ints{1}}, {"rhs_contract", Ints{0}}}, "f32[n,4]"},
      {"convolution", {f32({n, 9, 2}), f32({3, 2, 4})}, conv, "f32[n,5,4]"},
      {"reduce_sum", {f32({n, 8})}, {{"axes", Ints{1}}}, "f32[n]"},
      {"argmax", {f32({n, len})}, {{"axis", int64_t{1}}}, "i32[n]"},
      {"softmax", {f32({n, len})}, {{"axis", int64_t{1}}}, "f32[n,len]"},
      {"layer_norm", {f32({n, len, 8}), f32({8}), f32({8})}, {}, "f32[n,len,8]"},
      {"cross_entropy", {f32({n, 10}), i32({n})}, {}, "f32[n]"},
      {"embedding", {f32({100, 8}), i32({n, len})}, {}, "f32[n,len,8]"},
      {"gelu", {f32({n, len})}, {}, "f32[n,len]"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(inferred(row.op, row.operands, row.attrs), row.result) << row.op;
    const ir::OpDef& record = all_ops().get(row.op);
    Attrs attrs = *ir::complete_attrs(record, row.attrs);
    ir::TypedOp op{record, row.operands, attrs, *ir::infer_types(record, row.operands, attrs, {})};
    EXPECT_EQ(record.access(op).results.size(), op.results.size()) << row.op;
    EXPECT_EQ(record.factors(op).results.size(), op.results.size()) << row.op;
    EXPECT_FALSE(record.cost(op).bytes.is_static()) << row.op;
  }
}

TEST(Symbolic, SizesThatMayDifferAreRefusedWithTheConstraintToAdd) {
  Dim n = symbol("n"), m = symbol("m");
  const ir::OpDef& record = all_ops().get("dot_general");
  std::vector<Type> operands = {Type(DType::kF32, {2, n}), Type(DType::kF32, {m, 3})};
  Attrs attrs = *ir::complete_attrs(record, {{"lhs_contract", Ints{1}}, {"rhs_contract", Ints{0}}});
  Result<std::vector<Type>> types = ir::infer_types(record, operands, attrs, {});
  ASSERT_FALSE(types.ok());
  EXPECT_EQ(types.errors()[0].code, Code::kUndecidable);
  EXPECT_NE(types.errors()[0].help.find("n == m"), std::string::npos) << types.errors()[0].help;
}

}  // namespace
}  // namespace nabla::ops
