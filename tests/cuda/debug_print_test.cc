// Debug prints of GPU programs: values come back from the device's memory, in the order of the program, at every run.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/driver/compile.h"
#include "frontend/nabla.h"
#include "runtime/base/debug.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/cuda/fake_gpu.h"

namespace nabla {
namespace {

using Lines = std::vector<std::string>;

// What `steps` runs of `step` print, after `init`, on the fake GPU and on the CPU.
struct Printed {
  Lines gpu, cpu;
};

Printed printed(const Program& program, const std::vector<Literal>& inputs, int steps) {
  setenv("NABLA_FAKE_CUDA_CAPABILITY", "8.0", 1);
  auto compiled = driver::compile(program.module(), {.target = "sm_80,cpu"});
  NABLA_CHECK(compiled.ok(), "{}", to_string(compiled.errors()));
  std::string driver = fmt::format("{}/{}/tests/cuda/fake_driver/libfake_cuda.so", std::getenv("TEST_SRCDIR"),
                                   std::getenv("TEST_WORKSPACE"));
  Status ready = emulator::use_fake_gpu(compiled->bytes, driver);
  NABLA_CHECK(ready.ok(), "{}", to_string(ready.errors()));
  auto lines_on = [&](const char* target) {
    Lines lines;
    set_debug_sink([&](const DebugEvent& event) -> Status {
      lines.push_back(fmt::format("{} {}: {}", event.entry, event.run, debug_line(event)));
      return Ok{};
    });
    auto bundle = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(compiled->bytes)), "test");
    auto session = exec::Session::create(std::move(*bundle), {.threads = 1, .target = target});
    NABLA_CHECK(session.ok(), "{}", to_string(session.errors()));
    EXPECT_EQ((*session)->target().starts_with("cpu"), std::string(target) == "cpu");
    int init = (*session)->find_entry("init");
    bool made = init < 0 || (*session)->call(init, {}).ok();
    EXPECT_TRUE(made);
    for (int i = 0; i < steps; ++i) {
      auto ran = (*session)->call((*session)->need_entry("step").value(), inputs);
      EXPECT_TRUE(ran.ok()) << to_string(ran.errors());
    }
    set_debug_sink({});
    return lines;
  };
  return {lines_on("sm_80"), lines_on("cpu")};
}

// The first run is issued; without prints the others would be replays of a graph, in which no value comes back.
TEST(DebugPrintsOnAGpu, ShowEachStepsOwnValues) {
  Program program;
  State w = program.state("w", f32, {2});
  program.entry("init", {}, [&](const std::vector<Tensor>&) { w.set(ones({2})); });
  program.entry("step", {{"x", f32, {4, 2}}}, [&](Tensor x) -> Outputs {
    debug_print("begin");
    auto loss = [&](Tensor p) {
      Tensor out = matmul(x, p);
      Tensor mean_square = mean(out * out);
      debug_print("w {} loss {:.3f}", {p, mean_square});
      return mean_square;
    };
    auto [value, gradient] = value_and_grad(loss)(w.get());
    Tensor next = w.get() - 0.1 * gradient;
    debug_print("next {:.2f}", {next});
    w.set(next);
    return {{"loss", value}};
  });
  Literal x(f32, {4, 2});
  for (int64_t i = 0; i < 8; ++i) x.set(i, 0.5);
  Printed lines = printed(program, {x}, 3);
  EXPECT_EQ(lines.gpu, lines.cpu);
  ASSERT_EQ(lines.gpu.size(), 9u);
  EXPECT_EQ(Lines(lines.gpu.begin(), lines.gpu.begin() + 4),
            (Lines{"step 1: begin", "step 1: w [1, 1] loss 1.000", "step 1: next [0.90, 0.90]", "step 2: begin"}));
  EXPECT_EQ(lines.gpu[8], "step 3: next [0.73, 0.73]");
}

TEST(DebugPrintsOnAGpu, InLoopsAndBranchesThoseThatRun) {
  Program program;
  program.entry("step", {{"xs", f32, {3}}}, [](Tensor xs) -> Outputs {
    auto add = [](Tensor sum, Tensor x) {
      auto large = [](Tensor v) {
        debug_print("large {}", {v});
        return v;
      };
      auto small = [](Tensor v) {
        debug_print("small {}", {v});
        return -v;
      };
      debug_print("{} + {}", {sum, x});
      return std::pair(sum + cond(x > 1, large, small, x), sum);
    };
    return {{"sum", std::get<0>(scan(add, zeros({}), xs))}};
  });
  Literal xs(f32, {3});
  for (int64_t i = 0; i < 3; ++i) xs.set(i, static_cast<double>(i));
  Printed lines = printed(program, {xs}, 2);
  EXPECT_EQ(lines.gpu, lines.cpu);
  ASSERT_EQ(lines.gpu.size(), 12u);
  EXPECT_EQ(Lines(lines.gpu.begin() + 6, lines.gpu.end()),
            (Lines{"step 2: 0 + 0", "step 2: small 0", "step 2: 0 + 1", "step 2: small 1", "step 2: -1 + 2",
                   "step 2: large 2"}));
}

// A symbol's size of this run, not its bound; dtypes as they are.
TEST(DebugPrintsOnAGpu, ShowTheSizesOfTheRun) {
  Program program;
  ir::Dim n = program.symbol("n", 1, 8);
  program.entry("step", {{"x", f32, {n}}, {"k", i32, {2}}}, [](Tensor x, Tensor k) -> Outputs {
    Tensor y = x * 2;
    debug_print("{} {} {}", {y, k > 0, k});
    return {{"y", y}};
  });
  Literal x(f32, {3}), k(i32, {2});
  for (int64_t i = 0; i < 3; ++i) x.set(i, 0.5 * static_cast<double>(i));
  k.set_i(0, -7), k.set_i(1, 7);
  Printed lines = printed(program, {x, k}, 2);
  EXPECT_EQ(lines.gpu, lines.cpu);
  EXPECT_EQ(lines.gpu, (Lines{"step 1: [0, 1, 2] [False, True] [-7, 7]", "step 2: [0, 1, 2] [False, True] [-7, 7]"}));
}

}  // namespace
}  // namespace nabla
