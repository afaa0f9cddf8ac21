// Loops and branches inside each other, compiled and run, against the interpreter; and what the plan makes in place.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/plan.h"
#include "ir/reference/interpreter.h"
#include "ir/text.h"
#include "tests/conformance/cpu_run.h"
#include "tests/property/compare.h"

namespace nabla {
namespace {

ir::Module parse(const std::string& functions) {
  return ir::parse_module("nabla 1 flat\n" + functions, "test.nbl", ops::all_ops()).value();
}

// @main of the module with an entry around it.
conformance::Compiled compile(ir::Module m) {
  const ir::Function& f = *m.find("main");
  ir::Entry e{"main", "main", {}, {}, {}, {}};
  for (ir::ValueId id : f.params) e.inputs.push_back(f.values[id].name);
  for (size_t i = 0; i < f.results.size(); ++i) e.outputs.push_back("y" + std::to_string(i));
  m.entries = {e};
  return conformance::compile_for_cpu(m).value();
}

void expect_agreement(const std::string& functions, const std::vector<Literal>& args) {
  ir::Module m = parse(functions);
  conformance::Compiled compiled = compile(m);
  std::vector<Literal> want = ir::interpret(m, "main", args).value();
  for (int run = 0; run < 2; ++run) {
    std::vector<Literal> got = compiled.session->call(0, args).value();
    ASSERT_EQ(got.size(), want.size());
    for (size_t r = 0; r < want.size(); ++r)
      EXPECT_EQ(property::difference(want[r], got[r]).value_or(""), "") << "result " << r << ", run " << run;
  }
}

Literal floats(std::vector<int64_t> shape, double first, double step) {
  Literal out(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, first + step * static_cast<double>(i));
  return out;
}

constexpr const char* kNested = R"(
func @inner(%w: f32[3], %h: f32[3], %x: f32[3]) {
  %a = mul(%w, %x)
  %b = add(%h, %a)
  %t = tanh(%b)
  return %t, %a
}
func @big(%x: f32[3]) { %y = mul(%x, %x)  return %y }
func @small(%x: f32[3]) { %y = neg(%x)  return %y }
func @outer(%w: f32[3], %h: f32[3], %n: i32[], %xs: f32[4,3]) {
  %g, %ys = scan(%w, %h, %xs) {body = @inner, carries = 1, consts = 1, length = [4], reverse = true}
  %z = cond(%odd, %g) {then = @big, else = @small}
  return %z, %m, %ys
}
)";

TEST(ControlFlow, LoopsInsideLoopsWithBranchesInside) {
  std::string text = kNested;
  text.replace(text.find("  %z = cond"), 0,
               "  %one = constant() {value = i32[]{1}}\n  %m = add(%n, %one)\n  %two = constant() {value = i32[]{2}}\n"
               "  %r = rem(%n, %two)\n  %odd = eq(%r, %one)\n");
  text += R"(
func @main(%w: f32[3], %h: f32[3], %n: i32[], %xs: f32[5,4,3]) {
  %z, %m, %ys = scan(%w, %h, %n, %xs) {body = @outer, carries = 2, consts = 1, length = [5]}
  return %z, %m, %ys
}
)";
  expect_agreement(text, {floats({3}, 0.5, 0.25), floats({3}, -1, 0.5), Literal::scalar_int(DType::kI32, 3),
                          floats({5, 4, 3}, -1, 0.04)});
}

TEST(ControlFlow, CarriesThatChangePlacesAreStaged) {
  expect_agreement(R"(
func @fibonacci(%a: f32[2], %b: f32[2]) {
  %c = add(%a, %b)
  return %b, %c
}
func @main(%a: f32[2], %b: f32[2]) {
  %x, %y = scan(%a, %b) {body = @fibonacci, carries = 2, length = [7]}
  return %x, %y, %a
}
)",
                   {floats({2}, 1, 1), floats({2}, 1, 2)});
}

constexpr const char* kPower = R"(
func @below(%limit: f32[], %x: f32[], %count: i32[]) {
  %p = lt(%x, %limit)
  return %p
}
func @twice(%limit: f32[], %x: f32[], %count: i32[]) {
  %y = add(%x, %x)
  %one = constant() {value = i32[]{1}}
  %next = add(%count, %one)
  return %y, %next
}
)";

TEST(ControlFlow, AWhileRunsUntilItsConditionFails) {
  std::string text = std::string(kPower) + R"(
func @main(%limit: f32[], %x: f32[], %count: i32[]) {
  %y, %n = while(%limit, %x, %count) {body = @twice, cond = @below, consts = 1}
  return %y, %n
}
)";
  for (double limit : {1000.0, 0.5})
    expect_agreement(text, {floats({}, limit, 0), floats({}, 1, 0), Literal::scalar_int(DType::kI32, 0)});
}

TEST(ControlFlow, AWhileInsideAScan) {
  expect_agreement(std::string(kPower) + R"(
func @step(%count: i32[], %limit: f32[]) {
  %one = constant() {value = f32[]{1}}
  %y, %n = while(%limit, %one, %count) {body = @twice, cond = @below, consts = 1}
  return %n, %y
}
func @main(%count: i32[], %limits: f32[6]) {
  %n, %ys = scan(%count, %limits) {body = @step, carries = 1, length = [6]}
  return %n, %ys
}
)",
                   {Literal::scalar_int(DType::kI32, 0), floats({6}, 0, 13)});
}

// A carry that is only updated element by element costs no copy and no second buffer.
TEST(ControlFlow, AnElementwiseCarryIsUpdatedInPlace) {
  ir::Module m = parse(R"(
func @body(%w: f32[1000], %h: f32[1000]) {
  %g = mul(%h, %w)
  return %g
}
func @main(%w: f32[1000], %h: f32[1000]) {
  %g = scan(%w, %h) {body = @body, carries = 1, consts = 1, length = [9]}
  return %g
}
)");
  conformance::Compiled compiled = compile(m);
  EXPECT_EQ(compiled.planned.plan->functions.at("body").carries_in_place, std::vector<bool>{true});
  EXPECT_EQ(compiled.planned.plan->arena_bytes, 0);
}

}  // namespace
}  // namespace nabla
