// Kernels of the user's in traced programs: what their nodes hold, and what is said where they do not fit.
#include "frontend/cpp/user_kernel.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "frontend/cpp/ops.h"
#include "frontend/cpp/transforms.h"
#include "ir/op_def.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla {
namespace {

ir::Node custom_call_of(const ir::Module& m) {
  for (const ir::FunctionPtr& f : m.functions)
    for (const ir::Node& n : f->nodes)
      if (n.op->name == "custom_call") return n;
  throw std::runtime_error("no custom_call");
}

UserKernel half() {
  return cpp_kernel("half", "T[n] -> T[n]", R"(
void half(const T* x, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] / 2;
})");
}

// The line on which the n-th occurrence of `text` in this file stands.
int line_in_this_file(const std::string& text) {
  std::ifstream in(__FILE__);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number)
    if (line.find(text) != std::string::npos) return number;
  return 0;
}

TEST(UserKernel, KnowsTheLineOnWhichItsTextBegins) {
  auto at_call = trace(
      "f", [](Tensor x) { return half()(x); }, Spec{"x", f32, {5}});
  ir::Node n = custom_call_of(at_call.module());
  EXPECT_EQ(n.attrs.get_int("line"), line_in_this_file("cpp_kernel(\"half\""));
  EXPECT_TRUE(n.attrs.get_string("file").ends_with("user_kernel_test.cc"));
  UserKernel below = cpp_kernel("below", "T[n] -> T[n]",
                                R"(// this comment marks the line below the call
void below(const T*, T*, int64_t) {})");
  auto traced = trace(
      "f", [&](Tensor x) { return below(x); }, Spec{"x", f32, {5}});
  EXPECT_EQ(custom_call_of(traced.module()).attrs.get_int("line"),
            line_in_this_file("// this comment marks the line below the call"));
}

TEST(UserKernel, KnowsTheLinesOfBothTexts) {
  UserKernel both = half().cuda(R"(
// this comment marks the text for GPUs
void half(const T* x, T* y, int64_t n) {})",
                                {.threads = 64, .blocks = "n", .shared_bytes = 8});
  auto traced = trace(
      "f", [&](Tensor x) { return both(x); }, Spec{"x", f32, {5}});
  const ir::Attrs attrs = custom_call_of(traced.module()).attrs;
  EXPECT_EQ(attrs.get_int("cuda_line") + 1, line_in_this_file("// this comment marks the text for GPUs"));
  EXPECT_EQ(attrs.get_int("line"), line_in_this_file("cpp_kernel(\"half\""));
  EXPECT_TRUE(attrs.get_string("cuda_file").ends_with("user_kernel_test.cc"));
  EXPECT_EQ(attrs.get_int("threads"), 64);
  EXPECT_EQ(attrs.get_string("blocks"), "n");
  EXPECT_EQ(attrs.get_int("shared_bytes"), 8);
  auto alone = trace(
      "f", [&](Tensor x) { return cuda_kernel("k", "T[n] -> T[n]", "void k() {}")(x); }, Spec{"x", f32, {5}});
  EXPECT_EQ(custom_call_of(alone.module()).attrs.get_string("cpp"), "");
}

TEST(UserKernel, TracesItsRulesOncePerTypes) {
  auto kernel =
      half().reference([](Tensor x) { return 0.5 * x; }).vjp([](Tensor, Tensor, Tensor ct) { return 0.5 * ct; });
  auto f = trace(
      "f", [&](Tensor x, Tensor z) { return kernel(kernel(x)) + sum(kernel(z)); }, Spec{"x", f32, {5}},
      Spec{"z", f32, {3}});
  ir::Module m = f.module();
  EXPECT_EQ(m.functions.size(), 5u);  // f, and two rules for each of two types
  ir::Node n = custom_call_of(m);
  EXPECT_EQ(n.attrs.get_functions("reference").size(), 1u);
  EXPECT_EQ(n.attrs.get_functions("vjp").size(), 1u);
  EXPECT_EQ(n.location->line, line_in_this_file("kernel(kernel(x))"));
  std::string text = ir::print(m);
  EXPECT_EQ(ir::print(ir::parse_module(text, "again", ops::all_ops()).value()), text);
}

template <class F>
std::string error_of(F f) {
  try {
    trace("f", f, Spec{"x", f32, {4, 3}}, Spec{"w", f32, {3}});
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(UserKernel, SaysWhatDoesNotFit) {
  UserKernel mean = cpp_kernel("mean", "f32[n,d], f32[n] -> f32[n], f32[d]", "");
  EXPECT_NE(error_of([&](Tensor x, Tensor w) {
              return mean.results({x, w})[0];
            }).find("dimension 0 of operand 0, which is `n`, and dimension 0 of operand 1 differ: 4 vs 3 (C4)"),
            std::string::npos);
  UserKernel two = cpp_kernel("two", "f32[n,d], f32[d] -> f32[n], f32[d]", "");
  EXPECT_NE(error_of([&](Tensor x, Tensor w) { return two(x, w); }).find("kernel `two` has 2 results"),
            std::string::npos);
  UserKernel bad = cpp_kernel("bad", "f32[n,d], f32[d] -> f32[m]", "");
  EXPECT_NE(error_of([&](Tensor x, Tensor w) {
              return bad(x, w);
            }).find("signature \"f32[n,d], f32[d] -> f32[m]\", column 25: unknown symbol `m`"),
            std::string::npos);
  UserKernel fine = cpp_kernel("fine", "f32[n,d], f32[d] -> f32[n,d]", "");
  EXPECT_NE(error_of([&](Tensor x, Tensor w) {
              return fine.reference([&](Tensor a, Tensor) { return a * w; })(x, w);
            }).find("its reference uses a value of an enclosing function"),
            std::string::npos);
  EXPECT_NE(error_of([&](Tensor x, Tensor w) {
              return fine.reference([](Tensor a) { return a; })(x, w);
            }).find("the reference of fine does not take 2 tensors"),
            std::string::npos);
  EXPECT_NE(error_of([&](Tensor x, Tensor w) {
              return fine.reference([](Tensor a, Tensor) { return sum(a); })(x, w);
            }).find("(C8)"),
            std::string::npos);
}

}  // namespace
}  // namespace nabla
