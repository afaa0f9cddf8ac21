// debug_print: what it shows when, and what is said of formats that do not fit.
#include "frontend/cpp/debug.h"

#include "frontend/cpp/control_flow.h"
#include "frontend/cpp/ops.h"
#include "frontend/cpp/test_values.h"
#include "runtime/base/debug.h"

namespace nabla {
namespace {

using Lines = std::vector<std::string>;

// What f prints when it runs.
template <class F, class... L>
Lines printed(F f, const L&... args) {
  Lines lines;
  auto traced = trace("f", f, Spec(args.dtype(), ir::static_shape(args.shape()))...);
  set_debug_sink([&](const DebugEvent& event) -> Status {
    lines.push_back(debug_line(event));
    return Ok{};
  });
  (void)interpreted(traced.module(), "f", {args...});
  set_debug_sink({});
  return lines;
}

TEST(DebugPrint, ShowsOperandsInTheOrderOfTheProgram) {
  EXPECT_EQ(printed(
                [](Tensor x) {
                  debug_print("begin");
                  Tensor y = x * 2;
                  debug_print("x {} y {:.2f} {{}}", {x, y});
                  debug_print("x {}", {x});
                  debug_print("x {}", {x});
                  return y;
                },
                vec({1, 2.5})),
            (Lines{"begin", "x [1, 2.5] y [2.00, 5.00] {}", "x [1, 2.5]", "x [1, 2.5]"}));
}

TEST(DebugPrint, ShowsNumbersAsWhatTheyAre) {
  EXPECT_EQ(printed(
                [](Tensor n) {
                  debug_print("{} {} {:d} {}", {n, 0.1, 3, true});
                  return n;
                },
                vec({7}, {}, i32)),
            (Lines{"[7] 0.1 3 True"}));
}

TEST(DebugPrint, OncePerIteration) {
  auto body = [](Tensor i, Tensor c) {
    debug_print("{}: {}", {i, c});
    return c + c;
  };
  EXPECT_EQ(printed([&](Tensor x) { return fori_loop(0, 2, body, x); }, vec({1})), (Lines{"0: [1]", "1: [2]"}));
}

TEST(DebugPrint, SaysWhatDoesNotFit) {
  auto error = [](const std::string& format, std::vector<DType> dtypes) {
    return error_of([&] {
      trace(
          "f",
          [&](Tensor x, Tensor n) {
            std::vector<Arg> operands;
            for (DType d : dtypes) operands.emplace_back(d == f32 ? x : n);
            debug_print(format, operands);
            return x;
          },
          Spec{"x", f32, {4}}, Spec{"n", i32, {}});
    });
  };
  EXPECT_EQ(error("{} {}", {f32, i32}), "no error");
  for (const auto& [format, dtypes, want] : std::vector<std::tuple<std::string, std::vector<DType>, std::string>>{
           {"{} {}", {f32}, "`{} {}` has 2 fields for 1 operands"},
           {"{}", {f32, i32}, "`{}` has 1 fields for 2 operands"},
           {"x", {f32}, "`x` has 0 fields for 1 operands"},
           {"{:d}", {f32}, "does not format f32"},
           {"{", {}, "`{`"}}) {
    std::string got = error(format, dtypes);
    EXPECT_NE(got.find("error[E0204]"), std::string::npos) << got;
    EXPECT_NE(got.find(want), std::string::npos) << got;
    EXPECT_NE(got.find("debug_test.cc:"), std::string::npos) << got;
  }
  EXPECT_NE(error_of([] { debug_print("outside"); }).find("E0707"), std::string::npos);
}

}  // namespace
}  // namespace nabla
