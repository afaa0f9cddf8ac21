// call and the transforms of functions: examples of records cannot hold functions, so they are tested here.
#include <gtest/gtest.h>

#include "ir/op_def.h"
#include "ir/ops/all_ops.h"
#include "ir/reference/interpreter.h"

namespace nabla::ops {
namespace {

using ir::Attrs;
using ir::Function;
using ir::FunctionBuilder;
using ir::FunctionRef;
using ir::Ints;
using ir::MaybeVal;
using ir::Type;
using ir::Val;

const Type kScalar(DType::kF32, {});

/// Names derived functions by their suffixes.
class Named : public ir::Functions {
 public:
  Named(const ir::Module& module, std::vector<bool> active) : module_(module), active_(std::move(active)) {}
  std::string derive(std::string_view f, ir::Transform t, std::vector<bool> active) override {
    EXPECT_EQ(active, active_);
    constexpr const char* kSuffix[] = {".vjp_fwd", ".vjp_bwd", ".jvp"};
    return std::string(f) + kSuffix[static_cast<int>(t)];
  }
  std::vector<bool> depends(std::string_view, const std::vector<bool>&) override { return {}; }
  ir::BatchedFunction batch(std::string_view, std::vector<bool>, std::vector<bool>) override { return {}; }
  std::string define(Function f) override { return f.name; }
  const Function& get(std::string_view f) const override { return *module_.find(f); }
  void refuse(std::string_view reason) override { ADD_FAILURE() << reason; }

 private:
  const ir::Module& module_;
  std::vector<bool> active_;
};

/// @product: (x, y, i32) -> x * y, and its derived functions as the derivation pass would make them with x and y
/// active, or x alone for the jvp.
class CallTest : public ::testing::Test {
 protected:
  CallTest() {
    module.stage = ir::Stage::kFlat;
    define("product", 2, true, [](auto& p) { return std::vector<Val>{p[0] * p[1]}; });
    define("product.vjp_fwd", 2, true, [](auto& p) { return std::vector<Val>{p[0] * p[1], p[0], p[1]}; });
    define("product.vjp_bwd", 3, false, [](auto& p) { return std::vector<Val>{p[2] * p[1], p[2] * p[0]}; });
    FunctionBuilder b("product.jvp", all_ops());
    Val x = b.param("x", kScalar), y = b.param("y", kScalar);
    b.param("step", {DType::kI32, {}});
    Val t = b.param("t", kScalar);
    add(b.finish({x * y, t * y}));
    define("vector", 1, false, [](auto& p) { return std::vector<Val>{p[0].b->fill(DType::kF32, {2}, 1)}; });
    define("nothing", 0, false, [](auto&) { return std::vector<Val>{}; });
  }

  void add(Function f) { module.set(std::make_shared<const Function>(std::move(f))); }
  void define(const char* name, int floats, bool step, const std::function<std::vector<Val>(std::vector<Val>&)>& body) {
    FunctionBuilder b(name, all_ops());
    std::vector<Val> params;
    for (int i = 0; i < floats; ++i) params.push_back(b.param("x", kScalar));
    if (step) b.param("step", {DType::kI32, {}});
    add(b.finish(body(params)));
  }
  Result<std::vector<Type>> infer(const char* op, std::vector<Type> operands, Attrs attrs) {
    Attrs full = ir::complete_attrs(all_ops().get(op), attrs).value();
    return ir::infer_types(all_ops().get(op), operands, full, [&](std::string_view f) { return module.find(f); });
  }
  std::string refusal(const char* op, std::vector<Type> operands, Attrs attrs) {
    auto result = infer(op, std::move(operands), std::move(attrs));
    if (result.ok()) return "accepted";
    const std::string& text = result.errors()[0].message;
    size_t open = text.rfind('(');
    return code_name(result.errors()[0].code) + (open == std::string::npos ? "" : " " + text.substr(open));
  }
  std::vector<double> run(std::vector<double> floats, FunctionBuilder& b, const std::vector<Val>& results) {
    add(b.finish(results));
    std::vector<Literal> args;
    for (double v : floats) args.push_back(Literal::scalar(DType::kF32, v));
    args.push_back(Literal::scalar_int(DType::kI32, 7));
    std::vector<double> out;
    Result<std::vector<Literal>> values = ir::interpret(module, "main", args);
    for (const Literal& y : values.value()) out.push_back(y.get(0));
    return out;
  }

  ir::Module module;
  const Type step{DType::kI32, {}};
  const Attrs callee{{"callee", FunctionRef{"product"}}};
};

Attrs wrt(const char* f, Ints list) { return {{"callee", FunctionRef{f}}, {"wrt", std::move(list)}}; }

TEST_F(CallTest, AcceptsTheCalleesParametersOnly) {
  EXPECT_EQ(infer("call", {kScalar, kScalar, step}, callee).value(), std::vector<Type>{kScalar});
  EXPECT_EQ(refusal("call", {kScalar, kScalar}, callee), "E0201 (C2)");
  EXPECT_EQ(refusal("call", {kScalar, kScalar, kScalar}, callee), "E0202 (C2)");
  EXPECT_EQ(refusal("call", {kScalar, {DType::kF32, {2}}, step}, callee), "E0203 (C2)");
  EXPECT_EQ(refusal("call", {}, {{"callee", FunctionRef{"produkt"}}}), "E0107 (C1)");
  EXPECT_TRUE(infer("call", {}, {{"callee", FunctionRef{"nothing"}}}).value().empty());
}

TEST_F(CallTest, GradNeedsAFloatingScalarAndFloatingParameters) {
  std::vector<Type> operands = {kScalar, kScalar, step};
  EXPECT_EQ(infer("grad", operands, wrt("product", {1, 0})).value().size(), 2u);
  EXPECT_EQ(infer("value_and_grad", operands, wrt("product", {1})).value().size(), 2u);
  EXPECT_EQ(refusal("grad", operands, wrt("product", {2})), "E0301 (C5)");
  EXPECT_EQ(refusal("grad", operands, wrt("product", {3})), "E0204 (C4)");
  EXPECT_EQ(refusal("grad", operands, wrt("product", {0, 0})), "E0204 (C4)");
  EXPECT_EQ(refusal("grad", operands, wrt("product", {})), "E0204 (C4)");
  EXPECT_EQ(refusal("grad", {kScalar}, wrt("vector", {0})), "E0302 (C3)");
  EXPECT_EQ(refusal("grad", {}, wrt("nothing", {0})), "E0302 (C3)");
  EXPECT_EQ(refusal("grad", {kScalar}, wrt("product", {0})), "E0201 (C2)");
}

TEST_F(CallTest, TheOtherTransformsHaveTheTypesOfTheirFunction) {
  std::vector<Type> operands = {kScalar, kScalar, step};
  auto forward = infer("vjp_forward", operands, callee).value();
  ASSERT_EQ(forward.size(), 2u);
  EXPECT_EQ(forward[1].str(), "residual<@product>");
  EXPECT_EQ(infer("vjp_backward", {forward[1], kScalar}, callee).value(), operands);
  EXPECT_EQ(refusal("vjp_backward", {Type::residual("vector"), kScalar}, callee), "E0202 (C3)");
  EXPECT_EQ(refusal("vjp_backward", {forward[1]}, callee), "E0201 (C2)");
  EXPECT_EQ(refusal("call", {forward[1], kScalar, step}, callee), "E0202 (C2)");
  EXPECT_EQ(infer("jvp", {kScalar, kScalar, step, kScalar, kScalar, step}, callee).value().size(), 2u);
  EXPECT_EQ(refusal("jvp", operands, callee), "E0201 (C2)");
  EXPECT_EQ(refusal("jvp", {kScalar, kScalar, step, step, kScalar, step}, callee), "E0202 (C2)");
}

TEST_F(CallTest, VjpCallsTheDerivedFunctionsWithResidualsAndCotangents) {
  const ir::OpDef& op = all_ops().get("call");
  FunctionBuilder b("main", all_ops(), &module);
  std::vector<Val> operands = {b.param("x", kScalar), b.param("y", kScalar)};
  Val ct = b.param("ct", kScalar);
  operands.push_back(b.param("step", step));
  ir::TypedOp typed{op, {kScalar, kScalar, step}, callee, {kScalar}};
  Named functions(module, {true, true, false});
  ir::VjpForwardContext forward_ctx{b, typed, operands, {true, true, false}, &functions};
  ir::VjpForward forward = op.vjp_forward(forward_ctx);
  ASSERT_EQ(forward.residuals.size(), 2u);
  ir::VjpContext ctx{b, typed, operands, forward.results, {ct}, {true, true, false}, forward.residuals, &functions};
  std::vector<MaybeVal> gradients = op.vjp(ctx);
  ASSERT_EQ(gradients.size(), 3u);
  EXPECT_FALSE(gradients[2].has_value());
  EXPECT_EQ(run({3, 5, 2}, b, {forward.results[0], *gradients[0], *gradients[1]}), (std::vector<double>{15, 10, 6}));
}

TEST_F(CallTest, JvpPassesTheTangentsOfActiveOperandsOnly) {
  const ir::OpDef& op = all_ops().get("call");
  FunctionBuilder b("main", all_ops(), &module);
  std::vector<Val> operands = {b.param("x", kScalar), b.param("y", kScalar)};
  Val t = b.param("t", kScalar);
  operands.push_back(b.param("step", step));
  ir::TypedOp typed{op, {kScalar, kScalar, step}, callee, {kScalar}};
  Named functions(module, {true, false, false});
  ir::JvpContext ctx{b, typed, operands, {operands[0]}, {t, std::nullopt, std::nullopt}, &functions};
  std::vector<MaybeVal> tangents = op.jvp(ctx);
  ASSERT_EQ(tangents.size(), 1u);
  EXPECT_EQ(run({3, 5, 2}, b, {*tangents[0]}), std::vector<double>{10});
}

}  // namespace
}  // namespace nabla::ops
